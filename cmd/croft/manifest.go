package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/croftdev/croft"
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
			var all []manifestFault
			for _, file := range args {
				data, name, err := a.readManifestFile(file)
				if err != nil {
					return err
				}
				_, faults := manifest.Check(data, manifest.Options{Name: name, Untrusted: untrusted})
				for _, f := range faults {
					all = append(all, newManifestFault(name, f))
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
			data, name, err := a.readManifestFile(args[0])
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

// readManifestFile returns a manifest's text and the name it has in errors. A file
// longer than a manifest may be is read only as far as shows that.
func (a *app) readManifestFile(file string) (data []byte, name string, err error) {
	in, name := a.stdin, "stdin"
	if file != "-" {
		if in, err = os.Open(file); err != nil {
			return nil, "", fmt.Errorf("read the manifest: %w", err)
		}
		defer func() { _ = in.Close() }()
		name = file
	}
	data, err = io.ReadAll(io.LimitReader(in, manifest.MaxBytes+1))
	if err != nil {
		return nil, "", fmt.Errorf("read the manifest: %w", err)
	}
	return data, name, nil
}

// manifestFault is one fault, as `manifest check --json` prints it.
type manifestFault struct {
	File    string     `json:"file"`
	Line    int        `json:"line"`
	Column  int        `json:"column"`
	Place   string     `json:"place"`
	Code    croft.Code `json:"code"`
	Reason  string     `json:"reason"`
	Message string     `json:"message"`
}

// newManifestFault takes the place of a fault out of its details.
func newManifestFault(file string, e *croft.Error) manifestFault {
	f := manifestFault{File: file, Code: e.Code, Reason: e.Reason, Message: e.Message}
	f.Line, _ = e.Details["line"].(int)
	f.Column, _ = e.Details["column"].(int)
	f.Place, _ = e.Details["place"].(string)
	if p, ok := e.Details["problem"].(string); ok {
		f.Message = p
	}
	return f
}

func writeFaults(w io.Writer, faults []manifestFault, asJSON bool) error {
	if asJSON {
		if faults == nil {
			faults = []manifestFault{}
		}
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		return enc.Encode(faults)
	}
	for _, f := range faults {
		if _, err := fmt.Fprintf(w, "%s:%d:%d: %s: %s\n", f.File, f.Line, f.Column, f.Place, f.Message); err != nil {
			return err
		}
	}
	return nil
}
