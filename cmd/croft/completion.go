package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func (a *app) newCompletion() *cobra.Command {
	shells := []string{"bash", "zsh", "fish"}
	return &cobra.Command{
		Use:       "completion bash|zsh|fish",
		Short:     "Print a completion script for a shell",
		Example:   "  source <(croft completion bash)",
		ValidArgs: shells,
		Args:      exactly(1, "the name of a shell: "+strings.Join(shells, ", ")),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(a.stdout, true)
			case "zsh":
				return root.GenZshCompletion(a.stdout)
			case "fish":
				return root.GenFishCompletion(a.stdout, true)
			default:
				return usagef("no completion for the shell %q; there is %s", args[0], strings.Join(shells, ", "))
			}
		},
	}
}

// completeWords is a completion function that offers words.
func completeWords(words ...string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// mustComplete registers a completion for a flag that exists.
func mustComplete(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(fmt.Sprintf("completion of --%s: %v", flag, err))
	}
}
