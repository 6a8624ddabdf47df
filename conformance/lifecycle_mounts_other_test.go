//go:build !linux

package conformance

import "errors"

func (e *env) mount(string, bool) { e.skipf("needs Linux's mount namespaces") }

func (e *env) immutable(string) { e.skipf("needs Linux's immutable files") }

func (e *env) inMountNamespace(deletion) deleted {
	e.skipf("needs Linux's mount namespaces")
	return deleted{}
}

func child() error { return errors.ErrUnsupported }
