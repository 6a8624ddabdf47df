package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/croftdev/croft"
	"github.com/croftdev/croft/manifest"
	"github.com/croftdev/croft/policy"
	"github.com/croftdev/croft/snapshot"
)

// runFlags are the flags of `croft run`.
type runFlags struct {
	manifest, root, cwd    string
	grants                 []string
	env, envFiles, passEnv []string
	timeout                time.Duration
	policy, tier           string
	floor, net             string
	receipt                string
	keep, snapshot         bool
	json, stdin, allowHome bool
}

func (f *runFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.SetInterspersed(false) // flags after the program's name are the program's
	fs.StringVar(&f.manifest, "manifest", "", "fill the workspace from this `FILE`, JSON or YAML; - is standard input")
	fs.StringVar(&f.root, "root", "", "use this `DIR` as the workspace (default: the current one, or a fresh one with --manifest)")
	fs.StringArrayVar(&f.grants, "grant", nil, "let the command reach the host's `PATH[:ro]`; may be repeated")
	fs.StringArrayVar(&f.env, "env", nil, "set a variable, `NAME=VALUE`; may be repeated")
	fs.StringArrayVar(&f.envFiles, "env-file", nil, "set the variables in this `FILE`, one NAME=VALUE a line; --env is stronger")
	fs.StringArrayVar(&f.passEnv, "pass-env", nil, "pass this variable of the host by its `NAME`, if it is set; may be repeated")
	fs.StringVar(&f.cwd, "cwd", "", "run the command in this `DIR`, relative to the workspace")
	fs.Var((*durationFlag)(&f.timeout), "timeout", "end the command after this `TIME`: 90s, 10m, or a number of seconds")
	fs.BoolVar(&f.keep, "keep", false, "keep the session, and a fresh workspace, afterwards")
	fs.BoolVar(&f.snapshot, "snapshot", false, "save the workspace afterwards, so that the session can be resumed; keeps the session")
	fs.BoolVar(&f.json, "json", false, "print one JSON object with output, exit code and receipt instead of the output")
	fs.BoolVarP(&f.stdin, "stdin", "i", false, "give croft's standard input to the command")
	fs.StringVar(&f.policy, "policy", "", "what the command may touch: a policy `FILE` or a preset; the flags below are stronger")
	fs.StringVar(&f.tier, "tier", "", "confine in this `WAY`: namespaces, or none (default: the strongest that works here)")
	fs.StringVar(&f.floor, "floor", "", "fail unless at least this `WAY` of confinement works")
	fs.StringVar(&f.net, "net", "", "the network of the command, `none|host` (default: the policy's, else none)")
	fs.StringVar(&f.receipt, "receipt", "", "write what is really enforced to this `FILE` as JSON, before the command starts")
	fs.BoolVar(&f.allowHome, "allow-home", false, "allow a workspace that is /, a home directory, or contains croft's state")
	mustComplete(cmd, "net", completeWords("none", "host"))
	mustComplete(cmd, "tier", completeWords("namespaces", "none"))
	mustComplete(cmd, "floor", completeWords("namespaces", "landlock", "none"))
}

// keeps reports whether the session stays after the command.
func (f *runFlags) keeps() bool { return f.keep || f.snapshot }

// options turns the flags into what the library takes. A mistake in the words of
// the command line is a usageError; what they refer to is the library's to judge.
func (f *runFlags) options(a *app) (croft.WithOptions, error) {
	o := croft.CreateOptions{AllowHome: f.allowHome, PassEnv: f.passEnv}
	wd, err := os.Getwd()
	if err != nil {
		return croft.WithOptions{}, fmt.Errorf("find the current directory: %w", err)
	}
	switch {
	case f.root != "":
		o.Root = absolute(wd, f.root)
		// The library makes a root that is missing; a person who types one has mistyped it.
		if fi, err := os.Stat(o.Root); err != nil || !fi.IsDir() {
			return croft.WithOptions{}, usagef("--root %s is not a directory", f.root)
		}
	case f.manifest == "":
		o.Root = wd
	}
	o.Disposable = !f.keeps() // a croft that is killed leaves it to the next one
	// Without a manifest this is somebody's project, which should not fill with caches.
	o.PrivateHome = f.manifest == ""
	if o.Grants, err = f.grantList(wd); err != nil {
		return croft.WithOptions{}, err
	}
	// The library takes a path that may come into being later; a person who types one that
	// is not there has mistyped it.
	for _, g := range o.Grants {
		if _, err := os.Stat(g.Path); err != nil {
			return croft.WithOptions{}, usagef("--grant %s cannot be reached: %v", g.Path, errors.Unwrap(err))
		}
	}
	if o.Env, err = readEnv(f.envFiles, f.env); err != nil {
		return croft.WithOptions{}, err
	}
	if o.Policy, err = f.readPolicy(a); err != nil {
		return croft.WithOptions{}, err
	}
	if f.snapshot {
		o.Snapshot = &snapshot.Spec{Type: snapshot.Tar}
	}
	if f.manifest != "" {
		if o.Manifest, o.BaseDir, err = f.readManifest(a, wd); err != nil {
			return croft.WithOptions{}, err
		}
	}
	return croft.WithOptions{Create: o, Keep: f.keeps()}, nil
}

// readManifest parses the manifest and returns it with the directory below which
// its sources lie: its own, or the current one for standard input.
func (f *runFlags) readManifest(a *app, wd string) (*manifest.Manifest, string, error) {
	data, name, err := a.readText(f.manifest, "manifest", manifest.MaxBytes)
	if err != nil {
		return nil, "", err
	}
	m, err := manifest.Parse(data, manifest.Options{Name: name})
	if err != nil {
		return nil, "", err
	}
	if f.manifest == "-" {
		return m, wd, nil
	}
	return m, filepath.Dir(absolute(wd, f.manifest)), nil
}

// grantList parses --grant. Only a final :ro or :rw is an option, so that other
// colons can stand in a path.
func (f *runFlags) grantList(wd string) ([]croft.Grant, error) {
	var grants []croft.Grant
	for _, g := range f.grants {
		path, readOnly := strings.CutSuffix(g, ":ro")
		if !readOnly {
			path = strings.TrimSuffix(path, ":rw")
		}
		if path == "" {
			return nil, usagef("--grant %q names no path; it takes PATH or PATH:ro", g)
		}
		grants = append(grants, croft.Grant{Path: absolute(wd, path), ReadOnly: readOnly})
	}
	return grants, nil
}

// readPolicy returns the policy of --policy with what the other flags say in its place.
func (f *runFlags) readPolicy(a *app) (*policy.Policy, error) {
	p := &policy.Policy{}
	var err error
	if f.policy != "" {
		if *p, err = a.namedPolicy(f.policy); err != nil {
			return nil, err
		}
	}
	if f.tier != "" {
		if p.Tier, err = policy.ParseTier(f.tier); err != nil {
			return nil, usagef("--tier: %w", err)
		}
	}
	if f.floor != "" {
		if p.Floor, err = policy.ParseTier(f.floor); err != nil {
			return nil, usagef("--floor: %w", err)
		}
	}
	if f.net != "" {
		if p.Network, err = policy.ParseNetwork(f.net); err != nil {
			return nil, usagef("--net: %w", err)
		}
	}
	return p, nil
}

// absolute returns path below wd if it is relative. It is not cleaned: the library
// opens it as it was written, with the kernel's meaning of `link/..`.
func absolute(wd, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return wd + string(os.PathSeparator) + path
}

// durationFlag takes Go's durations and plain seconds.
type durationFlag time.Duration

func (d *durationFlag) String() string {
	if *d == 0 {
		return ""
	}
	return time.Duration(*d).String()
}

func (d *durationFlag) Type() string { return "time" }

func (d *durationFlag) Set(s string) error {
	v, err := time.ParseDuration(s)
	if err != nil {
		secs, ferr := strconv.ParseFloat(s, 64)
		if ferr != nil || secs != secs || secs > 1e9 {
			return fmt.Errorf("%q is no time; use 90s, 10m, or a number of seconds", s)
		}
		v = time.Duration(secs * float64(time.Second))
	}
	if v <= 0 {
		return fmt.Errorf("%q is no time to wait; it must be more than 0", s)
	}
	*d = durationFlag(v)
	return nil
}
