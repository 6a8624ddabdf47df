// Package conformance runs the shared cases: behaviours that croft must match,
// kept as data beside the repository and free of any programming language.
//
//	go test ./conformance/...
//
// The runner lives in the test files. It holds no product logic: for each case it
// lays out the files that the case asks for, calls the library once, and compares
// what came back, field by field, with what the case wants. The code that calls
// the library never sees the wanted outcome, so it cannot bend to it.
//
// Everything in a case must be read: a call, argument, setup step or outcome field
// that the runner does not know fails the case. For each case that passes, every
// wanted value is then changed in turn, and the case must notice each change.
//
// Cases come from $CROFT_CASES, else from shared/conformance in a directory above.
// Areas and calls that belong to later work are pending by name, and are counted
// as such; with CROFT_CASES set nothing is pending. CROFT_CASES_REPORT names a
// file that gets one JSON line a case: area, id, call, result, why.
//
// To add an area, write a file like fs_test.go: one table of calls, each with the
// outcome fields it knows and the function that runs it. See type area.
package conformance
