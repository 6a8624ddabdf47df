// Package snapshot keeps saved workspaces.
//
// A [Spec] says where the saved workspace of a session lies; it is what a session
// record and a serialized state hold. [Open] turns it into a [Store]:
//
//	st, err := snapshot.Open(snapshot.Spec{Type: snapshot.Tar, ID: id, BasePath: dir})
//	err = st.Persist(ctx, func(w io.Writer) error { return pack(w) })
//	r, err := st.Restore(ctx)
//
// Two kinds exist: [Tar] keeps one tar file per session in a directory, [None]
// keeps nothing. The kind [Remote] can be read and written as a Spec but not
// opened. What the stream holds is not this package's concern: packing and
// unpacking trees is done by those who call it.
package snapshot
