package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// app is what subcommands share: the three standard streams, which are files since
// `croft run` hands them to its command as they are.
type app struct {
	stdin, stdout, stderr *os.File
}

// execute runs the command line args and returns the exit code of the process.
func execute(args []string, stdin, stdout, stderr *os.File) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr}
	root := a.newRoot()
	root.SetArgs(args)
	ran, err := root.ExecuteC()
	if err != nil && !reported(err) {
		fmt.Fprintln(stderr, "croft: "+describe(err))
		if isUsage(err) {
			fmt.Fprintf(stderr, "Run '%s --help' for how it is used.\n", ran.CommandPath())
		}
	}
	return exitCode(ran, err)
}

func (a *app) newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "croft",
		Short: "A workspace for an agent: commands run in it confined",
		Long: strings.TrimSpace(`
croft gives an AI agent a workspace on this machine: a directory of yours or a
fresh one filled from a manifest. Commands run in it confined: they read the
system and the toolchains, write the workspace, and reach neither your home
directory, nor the host's variables, nor the network unless you say so.`),
		Example: strings.Trim(`
  croft run -- npm test                     # this directory, confined
  croft run --manifest app.yaml -- make     # a fresh workspace, gone afterwards
  croft manifest check app.yaml             # every fault, with its place`, "\n"),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          subcommandOnly,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	root.AddCommand(a.newRun(), a.newManifest(), a.newPolicy(), a.newVersion(), a.newCompletion())
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if c.Name() == "help" {
			c.Example = "  croft help run"
		}
	}
	return root
}

// subcommandOnly refuses words that are no subcommand, which cobra would else take
// for arguments of the parent.
func subcommandOnly(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := ""
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = fmt.Sprintf("; did you mean %q?", near[0])
	}
	return usagef("unknown command %q for %q%s", args[0], cmd.CommandPath(), hint)
}

// exactly is cobra.ExactArgs whose error counts as wrong usage.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return usagef("%s needs %s", cmd.CommandPath(), what)
		}
		return nil
	}
}
