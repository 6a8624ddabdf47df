// Command croft gives an AI agent a workspace on this machine and runs commands in
// it, confined.
//
// It is a front end: it reads flags, calls package croft, and writes what came of it.
// One file holds one subcommand; exit.go holds the one table of exit codes.
package main

import (
	"os"

	"github.com/croftdev/croft"
)

func main() {
	// First, since this process may have been started as one of croft's helpers.
	croft.Init()
	os.Exit(execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
