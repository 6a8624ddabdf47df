package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/croftdev/croft"
)

func (a *app) newRun() *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:   "run [flags] [--] COMMAND [ARG...]",
		Short: "Run one command, confined",
		Long: `Run one command, confined, in a session of its own that ends with it.

Without --manifest the current directory (or --root) is the workspace: the command
reads and writes it, and it stays as the command left it. With --manifest croft makes
a fresh workspace, fills it, and removes it afterwards unless --keep is given.

The command's standard output and error are croft's own, untouched. Its standard
input is empty unless -i is given. The exit code is the command's own; 124 means that
a timeout ended it, 125 that croft itself failed, 126 that the program cannot be
executed, 127 that it was not found, 128+n that signal n ended it.`,
		Example: `  croft run -- npm test
  croft run --net host --env-file .env.ci -- npm install
  croft run --manifest app.yaml --timeout 10m -- make
  croft run --grant ~/data:ro --json -- python3 analyse.py`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] == "" {
				return usagef("croft run needs a command, as in: croft run -- make test")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return a.run(f, args) },
	}
	f.register(cmd)
	return cmd
}

// run makes a session, runs argv in it, and takes it away again.
func (a *app) run(f *runFlags, argv []string) error {
	opts, err := f.options(a)
	if err != nil {
		return err
	}
	logger, err := newLogger(os.Getenv("CROFT_LOG"), a.stderr)
	if err != nil {
		return &usageError{err}
	}
	ctx, stop := withSignals(context.Background())
	defer stop()
	bar := newProgress(a.stderr)
	defer bar.stop()
	client, err := croft.Open(croft.Config{Logger: logger, OnProgress: bar.callback(), NoEventLog: !f.keeps()})
	if err != nil {
		return err
	}
	std, err := newRelay(a.stdout, a.stderr)
	if err != nil {
		return errors.Join(err, client.Close())
	}
	r := &runReport{}
	_, err = client.With(ctx, opts, func(ctx context.Context, s *croft.Session) error {
		bar.stop() // the terminal belongs to the command now
		logger.Debug("the session has started", "session", s.ID(), "workspace", s.HostRoot(), "seen_at", s.Root())
		return a.runIn(ctx, s, f, argv, std, r)
	})
	err = errors.Join(err, client.Close(), std.close())
	if err != nil && ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	return a.finishRun(f, r, err)
}

// runIn runs argv in the started session s and notes in r what came of it.
func (a *app) runIn(ctx context.Context, s *croft.Session, f *runFlags, argv []string, std *relay, r *runReport) error {
	receipt, err := s.Receipt()
	if err != nil {
		return err
	}
	r.Session, r.Receipt, r.workspace = s.ID(), &receipt, s.HostRoot()
	if f.receipt != "" {
		if err := writeReceipt(f.receipt, receipt); err != nil {
			return err
		}
	}
	cmd := croft.Command{Argv: argv, Dir: f.cwd, Timeout: f.timeout}
	if f.json {
		if f.stdin {
			cmd.Stdin = a.stdin
		}
	} else {
		cmd.Files = [3]*os.File{nil, std.out, std.err}
		if f.stdin {
			cmd.Files[0] = a.stdin
		} else {
			null, err := os.Open(os.DevNull)
			if err != nil {
				return fmt.Errorf("open an empty standard input: %w", err)
			}
			defer func() { _ = null.Close() }()
			cmd.Files[0] = null
		}
	}
	r.result, err = s.Exec(ctx, cmd)
	return err
}

// finishRun tells the user what is left to tell and returns the error that stands
// for the exit code.
func (a *app) finishRun(f *runFlags, r *runReport, err error) error {
	status := err
	if err == nil {
		status = commandStatus(r.result.ExitCode)
	}
	if f.json {
		if werr := r.write(a.stdout, err); werr != nil {
			return errors.Join(err, werr)
		}
		if err != nil {
			return reportedError{err}
		}
		return status
	}
	if f.keeps() && r.Session != "" {
		fmt.Fprintf(a.stderr, "croft: session %s is kept; its workspace is %s\n", r.Session, r.workspace)
	}
	return status
}
