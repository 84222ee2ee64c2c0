// Command ortbench compares ONNX Runtime in mm-native with the library's binding for Node,
// and with the library called in this process, without a pipe: the same files, inputs and
// numbers of threads, alternately.
//
//	ortbench -home HOME -node DIR [-threads 1,2] [-rounds 9] NAME=FILE:INPUT=SHAPE,INPUT=SHAPE…
//
// HOME is an MM_HOME with onnxruntime installed by mm runtime install, DIR the Node package
// of the same version. It prints median and minimum of a run, the ratios of mm-native's to
// Node's, the cost of the pipe, the time from the start of a process to its first result,
// and the peak memory of the process.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"mm-abi.org/mm/runtimes/native"
)

func main() {
	var o options
	flag.StringVar(&o.home, "home", "", "home folder with onnxruntime installed")
	flag.StringVar(&o.node, "node", "", "folder whose node_modules hold onnxruntime-node")
	threads := flag.String("threads", "1,2", "numbers of threads")
	flag.IntVar(&o.rounds, "rounds", 9, "rounds")
	flag.DurationVar(&o.batch, "batch", 100*time.Millisecond, "time of one engine's turn in a round")
	flag.Parse()
	for _, s := range strings.Split(*threads, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			fail(fmt.Errorf("bad number of threads %q", s))
		}
		o.threads = append(o.threads, n)
	}
	if err := run(context.Background(), o, flag.Args()); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "ortbench:", err)
	os.Exit(1)
}

type options struct {
	home, node string
	threads    []int
	rounds     int
	batch      time.Duration
}

func run(ctx context.Context, o options, args []string) error {
	r, err := native.Installed(o.home, native.ONNXRuntime)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "ortbench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Printf("ONNX Runtime %s; ms a run, median (least); ratios of medians (leasts)\n", r.Version)
	fmt.Printf("%-12s %1s  %16s %16s %16s  %12s %12s  %16s %16s\n", "model", "t", "mm-native", "node", "in process", "mm/node", "pipe", "cold mm, node", "peak MiB mm, node")
	for _, arg := range args {
		m, err := parse(arg, dir)
		if err != nil {
			return err
		}
		for _, threads := range o.threads {
			if err := measure(ctx, o, r.Dir, m, threads); err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
		}
	}
	return nil
}

// measure runs the engines alternately.
func measure(ctx context.Context, o options, dir string, m model, threads int) error {
	mm, err := openWorker(ctx, o, m, threads)
	if err != nil {
		return err
	}
	defer mm.close()
	node, err := openNode(ctx, o, m, threads)
	if err != nil {
		return err
	}
	defer node.close()
	alone, err := openHere(ctx, dir, m, threads)
	if err != nil {
		return err
	}
	defer alone.close()
	all := []*engine{mm, node, alone}
	for _, e := range all { // to determine the number of runs per turn
		took, err := e.run(ctx, 5)
		if err != nil {
			return err
		}
		e.runs = int(max(3, min(2000, o.batch/max(1, slices.Min(took)))))
	}
	for range o.rounds {
		for _, e := range all {
			took, err := e.run(ctx, e.runs)
			if err != nil {
				return err
			}
			e.took = append(e.took, took...)
		}
	}
	a, b, c := mm.times(), node.times(), alone.times()
	fmt.Printf("%-12s %1d  %16s %16s %16s  %12s %12s  %7.0f, %7.0f %7.0f, %7.0f\n", m.name, threads, a, b, c,
		fmt.Sprintf("%.2f (%.2f)", a.median/b.median, a.least/b.least), fmt.Sprintf("%.0f%% (%.0f%%)", 100*(1-c.median/a.median), 100*(1-c.least/a.least)),
		ms(mm.cold), ms(node.cold), mm.peak(), node.peak())
	return nil
}

// times are statistics of runs in milliseconds.
type times struct{ median, least float64 }

func (t times) String() string { return fmt.Sprintf("%.3f (%.3f)", t.median, t.least) }

func (e *engine) times() times {
	slices.Sort(e.took)
	return times{ms(e.took[len(e.took)/2]), ms(e.took[0])}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
