package croft

import "github.com/croftdev/croft/internal/confine"

// Version is this version of croft. A helper program must be of the same.
const Version = "0.1.0-dev"

// Init makes this program usable as croft's helper. Call it first thing in main: if
// the program was started as a helper it never returns, and else it returns at
// once. A program that does not call it needs a croft of the same version on PATH, or
// [Config].Helper.
func Init() { confine.Init() }
