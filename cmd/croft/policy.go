package main

import (
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/croftdev/croft/policy"
)

func (a *app) newPolicy() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "policy",
		Short:   "Check and show policies",
		Example: "  croft policy show strict",
		Args:    subcommandOnly,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.newPolicyCheck(), a.newPolicyShow(), a.newPolicySchema())
	return cmd
}

func (a *app) newPolicyCheck() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check FILE...",
		Short: "Name every fault of policy files, with its place",
		Long: `Read policy files and name every fault, one a line: file, line, column, the names that
lead to the place, and what is wrong. The paths that a policy names are not looked at. The exit
code is 1 if there is a fault.`,
		Example: "  croft policy check build.yaml",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("croft policy check needs a file; - is standard input")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			var all []textFault
			for _, file := range args {
				data, name, err := a.readText(file, "policy", policy.MaxBytes)
				if err != nil {
					return err
				}
				_, faults := policy.Faults(data, policy.Options{Name: name})
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
	return cmd
}

func (a *app) newPolicyShow() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show [FILE|PRESET]",
		Short: "Print a policy with its defaults written out",
		Long: "Print a policy file, or the preset " + strings.Join(policy.PresetNames(), ", ") + `, with every default written
out, as a policy file. Without an argument that is the preset default.`,
		Example: `  croft policy show strict > build.yaml
  croft policy show --json build.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("%s takes one file or preset", cmd.CommandPath())
			}
			return nil
		},
		ValidArgs: policy.PresetNames(),
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := a.namedPolicy(append(args, "default")[0])
			if err != nil {
				return err
			}
			if !asJSON {
				_, err := io.WriteString(a.stdout, p.Text())
				return err
			}
			enc := json.NewEncoder(a.stdout)
			enc.SetEscapeHTML(false)
			return enc.Encode(p.Complete())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return cmd
}

func (a *app) newPolicySchema() *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON Schema of policy files",
		Example: "  croft policy schema > policy.schema.json",
		Args:    exactly(0, "no argument"),
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(a.stdout, policy.Schema)
			return err
		},
	}
}

// namedPolicy returns the policy that a preset's name or a file says. A file with the name of a preset
// is written ./NAME, so that what a script means does not hang on the directory it runs in.
func (a *app) namedPolicy(name string) (policy.Policy, error) {
	if slices.Contains(policy.PresetNames(), name) {
		return policy.Preset(name)
	}
	data, source, err := a.readText(name, "policy", policy.MaxBytes)
	if err != nil {
		return policy.Policy{}, err
	}
	return policy.Parse(data, policy.Options{Name: source})
}
