package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/croftdev/croft/manifest"
)

func (a *app) newManifest() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "manifest",
		Short:   "Check and describe manifests",
		Example: "  croft manifest check app.yaml",
		Args:    subcommandOnly,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.newManifestCheck(), a.newManifestDescribe())
	return cmd
}

func (a *app) newManifestCheck() *cobra.Command {
	var asJSON, untrusted bool
	cmd := &cobra.Command{
		Use:   "check FILE...",
		Short: "Name every fault of manifests, with its place",
		Long: `Read manifests and name every fault, one a line: file, line, column, the names that
lead to the place, and what is wrong. Nothing is opened but the manifests. The exit code
is 1 if there is a fault.`,
		Example: `  croft manifest check app.yaml
  croft manifest check --untrusted - < from-an-agent.json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("croft manifest check needs a file; - is standard input")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			var all []textFault
			for _, file := range args {
				data, name, err := a.readText(file, "manifest", manifest.MaxBytes)
				if err != nil {
					return err
				}
				_, faults := manifest.Check(data, manifest.Options{Name: name, Untrusted: untrusted})
				for _, f := range faults {
					all = append(all, newTextFault(name, f))
				}
			}
			if err := writeFaults(a.stdout, all, asJSON); err != nil {
				return err
			}
			if len(all) > 0 {
				return statusError(exitFault)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON list of the faults")
	cmd.Flags().BoolVar(&untrusted, "untrusted", false, "also refuse what reaches for this machine: grants, local sources, host variables")
	return cmd
}

func (a *app) newManifestDescribe() *cobra.Command {
	return &cobra.Command{
		Use:     "describe FILE",
		Short:   "Print the tree that a manifest makes",
		Example: "  croft manifest describe app.yaml",
		Args:    exactly(1, "one file; - is standard input"),
		RunE: func(_ *cobra.Command, args []string) error {
			data, name, err := a.readText(args[0], "manifest", manifest.MaxBytes)
			if err != nil {
				return err
			}
			m, err := manifest.Parse(data, manifest.Options{Name: name})
			if err != nil {
				return err
			}
			text, err := m.Describe(manifest.AllLevels, manifest.NoLimit)
			if err != nil {
				return err
			}
			_, err = io.WriteString(a.stdout, text)
			return err
		},
	}
}
