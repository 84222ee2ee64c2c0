// Command measure runs programs and prints CPU seconds (user and system), wall seconds and
// peak memory. Several programs, separated by --, run alternately; it prints the median of
// each and its ratio to the first. It is used by scripts/bench.sh.
//
//	measure [-n RUNS] [-before COMMAND] NAME COMMAND… [-- NAME COMMAND…]…
//	measure -sha256 FILE
package main

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"time"
)

// program is one of the compared programs.
type program struct {
	name string
	args []string
	runs []cost
}

// cost is the cost of a run.
type cost struct {
	cpu, wall float64 // seconds
	peak      int64   // bytes
}

func main() {
	n := flag.Int("n", 3, "runs of each program")
	before := flag.String("before", "", "shell command to run before each run, uncounted")
	hash := flag.String("sha256", "", "hash this file and nothing else: the yardstick")
	flag.Parse()
	if err := work(*n, *before, *hash, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

func work(n int, before, hash string, args []string) error {
	if hash != "" {
		return sum(hash)
	}
	programs := split(args)
	for range n {
		for i := range programs {
			if before != "" {
				if out, err := exec.Command("sh", "-c", before).CombinedOutput(); err != nil {
					return fmt.Errorf("%s: %w: %s", before, err, out)
				}
			}
			c, err := run(programs[i].args)
			if err != nil {
				return fmt.Errorf("%s: %w", programs[i].name, err)
			}
			programs[i].runs = append(programs[i].runs, c)
		}
	}
	base := median(programs[0].runs, func(c cost) float64 { return c.cpu })
	for _, p := range programs {
		cpu := median(p.runs, func(c cost) float64 { return c.cpu })
		fmt.Printf("%-28s cpu %7.3f s  wall %7.3f s  peak %5.0f MiB  cpu ratio %5.2f\n", p.name, cpu,
			median(p.runs, func(c cost) float64 { return c.wall }), median(p.runs, func(c cost) float64 { return float64(c.peak) / (1 << 20) }), cpu/base)
	}
	return nil
}

func split(args []string) []program {
	var programs []program
	for len(args) > 0 {
		end := slices.Index(args, "--")
		if end < 0 {
			end = len(args)
		}
		programs = append(programs, program{name: args[0], args: args[1:end]})
		args = args[min(end+1, len(args)):]
	}
	return programs
}

func run(args []string) (cost, error) {
	cmd := exec.Command(args[0], args[1:]...)
	start := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return cost{}, fmt.Errorf("%w: %s", err, out)
	}
	s := cmd.ProcessState
	return cost{(s.UserTime() + s.SystemTime()).Seconds(), time.Since(start).Seconds(), peak(s)}, nil
}

func median(runs []cost, of func(cost) float64) float64 {
	values := make([]float64, len(runs))
	for i, r := range runs {
		values[i] = of(r)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// sum hashes a file as mm does, with reads of 512 KiB.
func sum(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.CopyBuffer(struct{ io.Writer }{h}, struct{ io.Reader }{f}, make([]byte, 512<<10)); err != nil {
		return err
	}
	fmt.Printf("%x\n", h.Sum(nil))
	return nil
}
