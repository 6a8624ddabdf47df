package denial

import "regexp"

// calls are the ways in which programs name the system call that failed: as "unshare failed", as
// "bpf()", as a name that can be nothing else for its underscore, or as the program that is
// named after its one call. A bare word before the error is not one: it may be a file's name.
var calls = []*regexp.Regexp{
	regexp.MustCompile(`(?i)\b([a-z][a-z0-9_]*)(?:\(\)|\(2\)| failed|\(\) failed):? .*?(?:operation not permitted|function not implemented|\bEPERM\b|\bENOSYS\b)`),
	regexp.MustCompile(`(?i)\b([a-z]+_[a-z0-9_]+): (?:operation not permitted|function not implemented|\bEPERM\b|\bENOSYS\b)`),
	regexp.MustCompile(`(?i)^(chroot|reboot|swapon|swapoff|pivot_root|setns|unshare): .*operation not permitted`),
}

// call explains a line about a system call that the filter denies and the host would not.
func (e Evidence) call(line string, h Host) (Denial, bool) {
	if h.Denies == nil || e.Receipt.Seccomp.Policy == "" {
		return Denial{}, false
	}
	for _, m := range calls {
		if found := m.FindStringSubmatch(line); found != nil && h.Denies(found[1]) {
			return Denial{
				Syscall, found[1], "system_calls: " + e.Receipt.Seccomp.Policy, Grant{"system_calls.allow", found[1]}, Likely,
			}, true
		}
	}
	return Denial{}, false
}
