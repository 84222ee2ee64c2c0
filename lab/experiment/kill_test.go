//go:build unix

package experiment_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/lab/experiment"
	"mm-abi.org/mm/registry/sign"
)

// shift is the plan of the killed run, with rows of every kind but fewer than a night's.
const shift = `
name: shift
seed: 3
iterations: 80
interval: 60s
telemetry: 2m
limits: {heat_c: 45, failures: 2}
steps:
  - {name: block, function: product, repeat: 3}
  - {name: frozen, function: product, every: 3}
  - {name: flaky, function: product}
  - name: upper
    policy: {kind: ucb, c: 0.3}
    repeat: 2
    arms: [{name: slow, function: product}, {name: fast, function: product}, {name: broken, function: product}]
  - name: drawn
    policy: {kind: epsilon-greedy, epsilon: 0.4}
    every: 2
    arms: [{name: a, function: product}, {name: b, function: product}]
  - name: fixed
    policy: {kind: static, prefer: [b]}
    every: 4
    arms: [{name: a, function: product}, {name: b, function: product}]
simulate:
  sensors: [{at: 0s, heat_c: 30}]
  steps:
    block: {takes: 19ms, load: 50ms}
    frozen: {takes: 576ms}
    flaky: {takes: 1s, fails_every: 5}
    upper: {arms: {slow: {takes: 9ms}, fast: {takes: 7ms}, broken: {takes: 1ms, fails_every: 1}}}
    drawn: {arms: {a: {takes: 3ms}, b: {takes: 2ms, fails_every: 9}}}
    fixed: {arms: {a: {takes: 1ms}, b: {takes: 2ms}}}
`

// TestMain also runs as the process that dies: if the environment says so, it resumes the
// run, and the kernel kills it before, or in the middle of, the N-th file operation.
func TestMain(m *testing.M) {
	dir := os.Getenv("MM_LAB_KILL_DIR")
	if dir == "" {
		os.Exit(testfiles.InMemory(m))
	}
	at, err := strconv.Atoi(os.Getenv("MM_LAB_KILL_AT"))
	if err == nil {
		err = dieAt(dir, at, func() error { return syscall.Kill(os.Getpid(), syscall.SIGKILL) })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// errDied is the error of every file operation after a simulated death.
var errDied = errors.New("died")

// dieAt resumes the run in dir and calls die before, or in the middle of, file operation number at. No later operation
// is executed.
func dieAt(dir string, at int, die func() error) error {
	private, err := os.ReadFile(filepath.Join(dir, "key"))
	if err != nil {
		return err
	}
	key, err := sign.LoadPrivate(private, nil)
	if err != nil {
		return err
	}
	p, err := experiment.ReadPlan(filepath.Join(dir, "plan.yaml"))
	if err != nil {
		return err
	}
	_, err = os.Stat(filepath.Join(dir, "run", experiment.ChainDir, "head.json"))
	opt, err := experiment.Simulation(experiment.Options{Dir: filepath.Join(dir, "run"), Resume: err == nil, Key: key, Verifier: key.Public()}, p)
	if err != nil {
		return err
	}
	n := 0
	opt.Files.Hook = func(op *fsx.Op, do func() error) error {
		if n++; at < 0 || n < at {
			return unsynced(op, do)
		}
		if n > at {
			return errDied
		}
		if op.Kind == fsx.OpWrite { // half a write reaches the disk
			op.Data = op.Data[:len(op.Data)/2]
			if err := do(); err != nil {
				return err
			}
		}
		return die()
	}
	_, err = experiment.Run(context.Background(), p, opt)
	return err
}

// A run that dies at 100 points in turn, at every fifth by SIGKILL, has the same rows as the
// undisturbed one, with the same times and figures, except for those of the resumptions, and
// a valid chain. With -short, it dies at 20 points.
func TestKilledAt100Points(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	private, _, err := sign.Generate(sign.Ed25519, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"key": private, "plan.yaml": []byte(shift)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	start := func(i, at int) error {
		if i%5 > 0 {
			if err := dieAt(dir, at, func() error { return errDied }); !errors.Is(err, errDied) {
				return fmt.Errorf("point %d: did not die: %w", at, err)
			}
			return nil
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "MM_LAB_KILL_DIR="+dir, "MM_LAB_KILL_AT="+strconv.Itoa(at))
		out, err := cmd.CombinedOutput()
		if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
			return nil
		}
		return fmt.Errorf("point %d: not killed: %w: %s", at, err, out)
	}
	// The points cover every operation of a resumption and of the next rows, few enough
	// that the run does not finish early.
	points := 100
	if testing.Short() {
		points = 20
	}
	for i := range points {
		if err := start(i, 1+i*7%31); err != nil {
			t.Fatal(err)
		}
	}
	if err := dieAt(dir, -1, nil); err != nil {
		t.Fatal(err)
	}
	key, err := sign.LoadPrivate(private, nil)
	if err != nil {
		t.Fatal(err)
	}
	complete := t.TempDir()
	if _, err := simulate(t, shift, complete, key, nil); err != nil {
		t.Fatal(err)
	}
	if choices(t, filepath.Join(dir, "run"), key) < 40 {
		t.Error("too few choices")
	}
	got, resumes := rows(t, filepath.Join(dir, "run"), key)
	want, _ := rows(t, complete, key)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the killed run differs (- complete, + killed): %s", diff)
	}
	left, err := filepath.Glob(filepath.Join(dir, "run", experiment.ChainDir, fsx.TempPrefix+"*"))
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files: %v, %v", left, err)
	}
	if resumes < points/5 || len(want) < 30 {
		t.Errorf("only %d resumptions and %d rows", resumes, len(want))
	}
	t.Logf("%d kills, %d resumptions, %d rows", points, resumes, len(got))
}
