package confine

// SetSmallProgram changes up to which size a program forks its wardens itself, for
// tests of either way.
func SetSmallProgram(size int64) { smallProgram = size }
