package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/croftdev/croft"
)

// version is what `git describe` says of the sources; the Makefile sets it.
var version string

// versionInfo is the object of `croft version --json`.
type versionInfo struct {
	Version  string `json:"version"`
	Build    string `json:"build,omitempty"`    // as `git describe` names it
	Revision string `json:"revision,omitempty"` // of the sources, where the build knows it
	Modified bool   `json:"modified,omitempty"` // the sources differed from that revision
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

func (a *app) newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  croft version --json",
		Args:    exactly(0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			v := buildVersion()
			if asJSON {
				return json.NewEncoder(a.stdout).Encode(v)
			}
			_, err := fmt.Fprintf(a.stdout, "croft %s (%s %s/%s)\n", v.Version, v.Go, v.OS, v.Arch)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func buildVersion() versionInfo {
	v := versionInfo{Version: croft.Version, Build: version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}
