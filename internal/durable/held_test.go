package durable

import (
	"testing"

	"golang.org/x/sys/unix"
)

// A child that was forked while a lock was held, and has not reached its exec, still
// has a copy of the descriptor when the lock is closed. Here the copy is made by hand.
func TestHeldLetsGoAlsoWhereACopyIsLeft(t *testing.T) {
	d, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	held, got, err := d.Lock()
	if err != nil || !got {
		t.Fatalf("Lock = %v, %v", got, err)
	}
	left, err := unix.Dup(held.dir.fd())
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(left)
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	again, got, err := d.Lock()
	if err != nil || !got {
		t.Fatalf("Lock after Close = %v, %v", got, err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}
