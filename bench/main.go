// Command bench measures croft beside its peers and writes the ratios.
//
//	go run ./bench               # all rows; results in bench/results.json and bench/RESULTS.md
//	go run ./bench -only read    # the rows whose name contains "read"
//	go run ./bench -check        # measure nothing: exit 1 on a row of results.json unmet or missing
//
// Each row runs two arms in turn, A B A B, in one process on one machine, and
// compares their medians, since single timings on a shared machine say nothing. A
// row that needs what is not there (bubblewrap, say) is an error and not a
// pass.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/croftdev/croft"
)

// Row is one line of results.json.
type Row struct {
	Name      string  `json:"name"`
	Unit      string  `json:"unit"`
	Croft     float64 `json:"croft"`
	Peer      string  `json:"peer"`
	PeerValue float64 `json:"peer_value"`
	Ratio     float64 `json:"ratio"`
	Bound     float64 `json:"bound"`
	Met       bool    `json:"met"`
	N         int     `json:"n"`
}

// compare describes one row before it is measured.
type compare struct {
	name  string
	peer  string
	unit  time.Duration
	bound float64 // the largest ratio croft/peer that will do; 0: only told
	n     int     // rounds
	// batch is how often an arm repeats its work within one round; the round's
	// time is divided by it.
	batch int
	// prepare makes the arms; cleanup ends what it made.
	prepare func() (croft, peer func() error, cleanup func(), err error)
}

func main() {
	croft.Init()
	only := flag.String("only", "", "run the rows whose name contains this text")
	check := flag.Bool("check", false, "exit 1 if a row of bench/results.json is unmet or missing")
	dir := flag.String("dir", "bench", "where results.json and RESULTS.md lie")
	flag.Parse()
	var err error
	if *check {
		err = checkResults(*dir)
	} else {
		err = run(*dir, *only)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(dir, only string) error {
	var rows []Row
	for _, c := range rowsToMeasure() {
		if !strings.Contains(c.name, only) {
			continue
		}
		r, err := measure(c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		fmt.Println(line(r))
		rows = append(rows, r)
	}
	if only != "" {
		return nil // a part does not replace the whole
	}
	return write(dir, rows)
}

// measure runs the arms of c in turn and returns their medians.
func measure(c compare) (Row, error) {
	ours, theirs, cleanup, err := c.prepare()
	if err != nil {
		return Row{}, err
	}
	defer cleanup()
	arms := [2]func() error{ours, theirs}
	var times [2][]float64
	for round := range c.n + 1 {
		for i := range arms {
			arm := (i + round) % 2 // each arm goes first in half of the rounds
			start := time.Now()
			for range c.batch {
				if err := arms[arm](); err != nil {
					return Row{}, err
				}
			}
			took := time.Since(start)
			if round > 0 { // the first round warms up
				times[arm] = append(times[arm], float64(took)/float64(c.batch)/float64(c.unit))
			}
		}
	}
	r := Row{
		Name: c.name, Unit: unitName(c.unit), Peer: c.peer, Bound: c.bound, N: c.n,
		Croft: median(times[0]), PeerValue: median(times[1]),
	}
	r.Ratio = r.Croft / r.PeerValue
	r.Met = r.Bound == 0 || r.Ratio <= r.Bound
	return r, nil
}

func median(v []float64) float64 {
	slices.Sort(v)
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

func unitName(u time.Duration) string {
	if u == time.Millisecond {
		return "ms"
	}
	return "us"
}

func line(r Row) string {
	bound := "no bound"
	switch {
	case r.Bound > 0 && r.Met:
		bound = fmt.Sprintf("at most %.2f: met", r.Bound)
	case r.Bound > 0:
		bound = fmt.Sprintf("at most %.2f: NOT MET", r.Bound)
	}
	return fmt.Sprintf("%-34s %9.2f %s  %-22s %9.2f %s  ratio %5.2f (%s), n=%d",
		r.Name, r.Croft, r.Unit, r.Peer, r.PeerValue, r.Unit, r.Ratio, bound, r.N)
}

// write replaces results.json and RESULTS.md.
func write(dir string, rows []Row) error {
	data, err := json.MarshalIndent(rows, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "results.json"), append(data, '\n'), 0o644); err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("# Measured\n\nWritten by `make bench`; do not edit. Each row is the median of interleaved rounds in one\nprocess; the ratio is croft's time over the peer's, so less is better.\n\n")
	fmt.Fprintf(&b, "%s, %s, %d CPUs, uid %d, %s\n\n", kernel(), runtime.Version(), runtime.NumCPU(), os.Getuid(), time.Now().UTC().Format("2006-01-02"))
	b.WriteString("| what | croft | peer | peer's | ratio | bound | met | rounds |\n|---|---|---|---|---|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %.2f %s | %s | %.2f %s | %.2f | %s | %s | %d |\n",
			r.Name, r.Croft, r.Unit, r.Peer, r.PeerValue, r.Unit, r.Ratio, boundText(r.Bound), yes(r.Met), r.N)
	}
	return os.WriteFile(filepath.Join(dir, "RESULTS.md"), []byte(b.String()), 0o644)
}

func boundText(b float64) string {
	if b == 0 {
		return "none"
	}
	return fmt.Sprintf("%.2f", b)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func kernel() string {
	out, err := exec.Command("uname", "-srm").Output()
	if err != nil {
		return runtime.GOOS + " " + runtime.GOARCH
	}
	return strings.TrimSpace(string(out))
}

// checkResults reports the rows that are unmet or missing.
func checkResults(dir string) error {
	data, err := os.ReadFile(filepath.Join(dir, "results.json"))
	if err != nil {
		return err
	}
	var rows []Row
	if err := json.Unmarshal(data, &rows); err != nil {
		return err
	}
	var bad []string
	for _, c := range rowsToMeasure() {
		i := slices.IndexFunc(rows, func(r Row) bool { return r.Name == c.name })
		switch {
		case i < 0:
			bad = append(bad, c.name+" is missing")
		case rows[i].Bound != c.bound:
			bad = append(bad, c.name+" was measured against another bound")
		case !rows[i].Met:
			bad = append(bad, c.name+" is not met")
		}
	}
	if len(bad) > 0 {
		return fmt.Errorf("%s: measure again with make bench", strings.Join(bad, "; "))
	}
	return nil
}

// scratch makes a directory for the files of one row.
func scratch() (string, func(), error) {
	dir, err := os.MkdirTemp("", "croft-bench-")
	if err != nil {
		return "", nil, err
	}
	return dir, func() { os.RemoveAll(dir) }, nil
}

// writeFile makes a file of n bytes and its parents.
func writeFile(name string, n int) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, make([]byte, n), fs.FileMode(0o644))
}
