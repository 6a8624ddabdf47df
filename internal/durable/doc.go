// Package durable keeps small files that survive a crash: a reader sees the old
// content or the new one, never a part, and what was committed is still there
// after power is lost.
//
//	d, err := durable.Open("/var/lib/x")
//	err = d.WriteFile("record.json", data)
//
// Everything is done below a held directory descriptor ([Dir]), so that a
// directory that is renamed or replaced meanwhile is never followed by its name.
// New content goes to a temporary file beside the target, is synced, renamed over
// it, and the directory is synced. The temporary file is locked for as long as
// its writer lives, so that [Dir.RemoveLeftovers] takes away what a killed writer
// left and nothing else.
//
// The package trusts the directory: who may write in it may replace any file.
// It knows nothing of what the files hold.
package durable
