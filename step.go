package croft

import (
	"context"
	"fmt"
)

// Step is one recorded step in the life of a session. The steps of a call come in
// a fixed order, which the record on disk follows: what is about to happen is
// known there before it happens.
type Step string

// The steps, in the order in which a session that is created, started, closed and
// deleted meets them.
const (
	StepCreate            Step = "create"             // Create: the record is about to be written
	StepEnsureBackend     Step = "ensure_backend"     // Start: choose the tier by trying it
	StepPrepareWorkspace  Step = "prepare_workspace"  // Start: make and open the root
	StepEnsureHelpers     Step = "ensure_helpers"     // Start: start the warden
	StepFillWorkspace     Step = "fill_workspace"     // Start: restore, or apply the manifest
	StepMarkRunning       Step = "mark_running"       // Start: the record says running
	StepAfterFailedStart  Step = "after_failed_start" // Start, when a step failed or was cancelled
	StepEndProcesses      Step = "end_processes"      // Stop, Shutdown: end every command
	StepPersistSnapshot   Step = "persist_snapshot"   // Stop: save the workspace
	StepAfterStop         Step = "after_stop"         // Stop: always, the record says stopped
	StepShutdownBackend   Step = "shutdown_backend"   // Shutdown: end the warden
	StepMarkNotRunning    Step = "mark_not_running"   // Shutdown
	StepDelete            Step = "delete"             // With: delete what the call owns
	StepCloseDependencies Step = "close_dependencies" // Close: release what the session holds
	StepFlushEvents       Step = "flush_events"       // Close: wait for pending event deliveries
	StepRemoveRoot        Step = "remove_root"        // Delete: the workspace's name is about to go
)

// stepUnmount names the step before one registered mount is released.
func stepUnmount(name string) Step { return Step("unmount:" + name) }

// stepHook names the step before the n-th hook, counted from 1.
func stepHook(n int) Step { return Step(fmt.Sprintf("hook%d", n)) }

// StepFunc is told of each step just before it is taken. An error it returns fails
// that step as if the step itself had failed with it; an error for which
// errors.Is(err, context.Canceled) holds counts as a cancellation. It runs on the
// goroutine of the call, so it must not call methods of the same session.
type StepFunc func(ctx context.Context, sessionID string, step Step) error
