// Package root turns names into descriptors, so that a file operation acts on
// what its name meant when it was looked up, and on nothing outside.
//
// A [Tree] is a workspace directory with its grants (host paths outside the
// workspace that may be reached too). Together they are the tree's roots. Each is
// opened once; every operation starts from these descriptors and never from a
// path that was checked before:
//
//	t, err := root.Open(root.Options{Path: "/srv/ws", Grants: []root.Grant{{Path: "/data", ReadOnly: true}}})
//	defer t.Close()
//	text, err := t.ReadFile(ctx, "src/main.go", root.ReadOptions{})
//
// A name is relative to the workspace, or absolute below a spelling of a root.
// Links are followed where they stay inside the roots; a link that leaves them
// all makes the name an escape, which is an error. An attacker who renames and
// swaps entries meanwhile can make an operation fail, or choose which entry
// inside the roots it acts on. He cannot lead it outside.
//
// Two things this does not do. A directory that is moved out of a root after an
// operation has opened it is still the one the operation works in; whoever may
// move it could have changed it as well. And a hard link inside a root to a file
// outside is that file: the kernel's fs.protected_hardlinks is the defence there.
//
// The package knows nothing of sessions; it works on Linux. On other systems Open
// fails with an error that wraps errors.ErrUnsupported; [Names] works everywhere.
package root
