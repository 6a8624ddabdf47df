package policy

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits bound what the commands of a session use. A field that is 0 sets no limit.
type Limits struct {
	// Memory is how many bytes all commands together may hold.
	Memory int64
	// PIDs is how many processes and threads there may be at once.
	PIDs int64
	// CPUTime is how much time of processors all commands together may use.
	CPUTime time.Duration
	// CPUShare is how much of the processors they may use at a time, in hundredths of one: 150 is
	// one and a half processors.
	CPUShare int64
	// OpenFiles is how many files one process may have open.
	OpenFiles int64
	// FileSize is the longest file that a command may write, in bytes.
	FileSize int64
	// Disk is how many bytes the workspace may hold.
	Disk int64
	// WallTime is how long one command may take.
	WallTime time.Duration
}

// quantity is what a limit counts; each has its units.
type quantity int8

const (
	size  quantity = iota // 4096, 256M, 2GiB
	count                 // 100
	span                  // 90s, 10m, 90
	share                 // 150%
)

// limitField is one limit, by its name in the file form and on the command line.
type limitField struct {
	name     string
	quantity quantity
	// least is the smallest value: less than that is a forgotten unit.
	least int64
	in    func(*Limits) *int64
}

const mebibyte = 1 << 20

// limitFields are the limits in the order of the reference.
var limitFields = []limitField{
	{"memory", size, mebibyte, func(l *Limits) *int64 { return &l.Memory }},
	{"pids", count, 1, func(l *Limits) *int64 { return &l.PIDs }},
	{"cpu_time", span, 1, func(l *Limits) *int64 { return (*int64)(&l.CPUTime) }},
	{"cpu_share", share, 1, func(l *Limits) *int64 { return &l.CPUShare }},
	{"open_files", count, 1, func(l *Limits) *int64 { return &l.OpenFiles }},
	{"file_size", size, 1, func(l *Limits) *int64 { return &l.FileSize }},
	{"disk", size, mebibyte, func(l *Limits) *int64 { return &l.Disk }},
	{"wall_time", span, 1, func(l *Limits) *int64 { return (*int64)(&l.WallTime) }},
}

// LimitNames returns the names of the limits, in the order of the reference.
func LimitNames() []string {
	var names []string
	for _, f := range limitFields {
		names = append(names, f.name)
	}
	return names
}

// With returns l with one limit set, written NAME=VALUE as on the command line: memory=256M,
// pids=100, cpu_share=150%, wall_time=10m. Sizes take the units K, M, G and T, which are powers
// of 1024, with or without iB; times take those of [time.ParseDuration]; without a unit they are bytes
// and seconds. The error wraps [ErrInvalid].
func (l Limits) With(assignment string) (Limits, error) {
	name, value, ok := strings.Cut(assignment, "=")
	if !ok {
		return l, fmt.Errorf("%w: limit %q: want NAME=VALUE, such as memory=256M", ErrInvalid, assignment)
	}
	f, ok := limitNamed(name)
	if !ok {
		return l, fmt.Errorf("%w: no limit is called %q: use %s", ErrInvalid, name, strings.Join(LimitNames(), ", "))
	}
	v, problem := f.parse(value)
	if problem != "" {
		return l, fmt.Errorf("%w: limit %s: %s", ErrInvalid, name, problem)
	}
	*f.in(&l) = v
	return l, nil
}

// All returns the limits that are set, by name, in the form that [Limits.With] reads.
func (l Limits) All() map[string]string {
	all := map[string]string{}
	for _, f := range limitFields {
		if v := *f.in(&l); v != 0 {
			all[f.name] = f.quantity.format(v)
		}
	}
	return all
}

// MarshalJSON writes an object of the limits that are set.
func (l Limits) MarshalJSON() ([]byte, error) { return json.Marshal(l.All()) }

// UnmarshalJSON reads what MarshalJSON wrote; a policy that somebody else wrote is read by [Parse].
func (l *Limits) UnmarshalJSON(data []byte) error {
	var all map[string]string
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	var read Limits
	for name, value := range all {
		var err error
		if read, err = read.With(name + "=" + value); err != nil {
			return err
		}
	}
	*l = read
	return nil
}

// check reports the first limit that a program set to what no text could.
func (l Limits) check() error {
	for _, f := range limitFields {
		v := *f.in(&l)
		if v == 0 {
			continue
		}
		if problem := f.problem(v); problem != "" {
			return fmt.Errorf("%w: limits.%s: %s", ErrInvalid, f.name, problem)
		}
	}
	return nil
}

func limitNamed(name string) (limitField, bool) {
	i := slices.IndexFunc(limitFields, func(f limitField) bool { return f.name == name })
	if i < 0 {
		return limitField{}, false
	}
	return limitFields[i], true
}

// parse returns the value that s is, or what is wrong with it.
func (f limitField) parse(s string) (v int64, problem string) {
	switch f.quantity {
	case size:
		v, problem = parseSize(s)
	case count:
		v, problem = parseWhole(s, "a whole number")
	case span:
		v, problem = parseSpan(s)
	case share:
		digits, ok := strings.CutSuffix(s, "%")
		if !ok {
			return 0, fmt.Sprintf("%q is no share; write it in percent of one processor, such as 150%%", s)
		}
		v, problem = parseWhole(digits, "a whole number of percent")
	}
	if problem == "" {
		problem = f.problem(v)
	}
	return v, problem
}

// most bounds counts and shares: what needs more than this needs no limit.
const most = math.MaxInt32

// problem returns what is wrong with the value v, or "".
func (f limitField) problem(v int64) string {
	switch {
	case v < 0:
		return "it is less than 0"
	case v < f.least && f.quantity == size:
		return fmt.Sprintf("%s is less than %s; without a unit it is bytes", f.quantity.format(v), f.quantity.format(f.least))
	case v < f.least:
		return "it has to be more than 0; leave it out for no limit"
	case v > most && (f.quantity == count || f.quantity == share):
		return fmt.Sprintf("%d is more than %d; leave it out for no limit", v, most)
	}
	return ""
}

// parseWhole reads plain decimal digits: only what every reader takes for the same number, so not
// 010, +1 or 1_000.
func parseWhole(s, want string) (int64, string) {
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil || strconv.FormatInt(v, 10) != s {
		return 0, fmt.Sprintf("%q is not %s", s, want)
	}
	return v, ""
}

// units are those of sizes, the largest first.
var units = []struct {
	name  string
	shift int
}{{"T", 40}, {"G", 30}, {"M", 20}, {"K", 10}}

func parseSize(s string) (int64, string) {
	const want = "a size; write 4096, 64K, 256M, 2G or 1T, which count in 1024"
	digits, shift := s, 0
	for _, u := range units {
		if d, ok := strings.CutSuffix(strings.TrimSuffix(s, "iB"), u.name); ok {
			digits, shift = d, u.shift
		}
	}
	v, problem := parseWhole(digits, want)
	if problem != "" {
		return 0, fmt.Sprintf("%q is not %s", s, want)
	}
	if v > math.MaxInt64>>shift {
		return 0, fmt.Sprintf("%q is more than any disk holds", s)
	}
	return v << shift, ""
}

func parseSpan(s string) (int64, string) {
	if d, err := time.ParseDuration(s); err == nil && s != "0" {
		return int64(d), ""
	}
	v, problem := parseWhole(s, "")
	if problem != "" {
		return 0, fmt.Sprintf("%q is not a time; write 90s, 10m, 1h30m or a whole number of seconds", s)
	}
	if v > math.MaxInt64/int64(time.Second) {
		return 0, fmt.Sprintf("%q is longer than a time can be", s)
	}
	return v * int64(time.Second), ""
}

// format returns v in the shortest form that is read back as v.
func (q quantity) format(v int64) string {
	switch q {
	case size:
		for _, u := range units {
			if v%(1<<u.shift) == 0 {
				return strconv.FormatInt(v>>u.shift, 10) + u.name
			}
		}
	case span:
		return time.Duration(v).String()
	case share:
		return strconv.FormatInt(v, 10) + "%"
	case count:
	}
	return strconv.FormatInt(v, 10)
}
