// Package state keeps what croft remembers of its sessions on disk, and decides
// from it what a start and a stop have to do.
//
//	d, err := state.Open(dir)             // the state directory, held by descriptors
//	l, err := d.NewSession(state.Record{ID: state.NewID(), ...})
//	err = l.Save(rec)                     // before what the record announces happens
//	err = l.Trash()                       // gone for every observer, in one rename
//	err = l.Release()
//	report, err := d.Sweep(ctx, nil)      // the bytes go here
//
// A [Record] is trusted: it lies in a directory of mode 0700 that belongs to the
// one who runs croft, and holds grants. A [Serialized] state is what a program
// carries away and may store anywhere: it holds no secret and no authority over
// the host, and what was left out of it is named, so that it is bound again.
//
// One process at a time holds a session ([Lock]). A record is replaced whole and is
// on disk when [Lock.Save] returns. Since what is about to happen is recorded before
// it happens, whoever finds a session whose process was killed knows from the record
// what may have been left half done. doc/state.md describes the directory.
//
// The package knows nothing of confinement and of what a workspace holds.
package state
