//go:build unix

package study

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
	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/train"
)

// killedText is the study of the killed run: few steps, but rows of every kind.
const killedText = `
name: killed
recipe: recipe.yaml
tokens: 640
seeds: [1, 2]
held_out: {choose: 0.15, judge: 0.15, documents: 12}
scheduler: {kind: halving, eta: 2, rungs: [256]}
budget: {tokens: 8000}
mutations:
  - {kind: rate, values: [1.0e-2, 1.0e-5]}
  - {kind: optimizer, values: [schedule-free]}
  - {kind: data, values: [0.3]}
hypotheses:
  - {name: fast, claim: a higher rate is better, arm: rate=0.01, expect: {below: -0.01}, refute: {above: 0}}
`

// TestMain also runs as the process that dies: if the environment holds a folder, it resumes the
// run and is killed before, or in the middle of, the N-th event: an operation on a file of
// the chain or an event of a training.
func TestMain(m *testing.M) {
	dir := os.Getenv("MM_STUDY_KILL_DIR")
	if dir == "" {
		os.Exit(testfiles.InMemory(m))
	}
	at, err := strconv.Atoi(os.Getenv("MM_STUDY_KILL_AT"))
	if err == nil {
		_, err = dieAt(dir, at, func() error { return syscall.Kill(os.Getpid(), syscall.SIGKILL) })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// errDied is the error of every operation after a simulated death.
var errDied = errors.New("died")

// death counts events and dies at one of them.
type death struct {
	n, at int
	die   func() error
}

func (d *death) event() error {
	d.n++
	switch {
	case d.at < 0 || d.n < d.at:
		return nil
	case d.n == d.at:
		return d.die()
	}
	return errDied
}

// Observe implements train.Observer.
func (d *death) Observe(train.Event) error { return d.event() }

// hook dies before an operation, or after half a write.
func (d *death) hook(op *fsx.Op, do func() error) error {
	if d.at > 0 && d.n+1 == d.at && op.Kind == fsx.OpWrite {
		op.Data = op.Data[:len(op.Data)/2]
		if err := do(); err != nil {
			return err
		}
	}
	if err := d.event(); err != nil {
		return err
	}
	return do()
}

// dieAt resumes the run in dir and dies at event number at.
func dieAt(dir string, at int, die func() error) (Answer, error) {
	private, err := os.ReadFile(filepath.Join(dir, "key"))
	if err != nil {
		return Answer{}, err
	}
	key, err := sign.LoadPrivate(private, nil)
	if err != nil {
		return Answer{}, err
	}
	s, err := Read(filepath.Join(dir, "small.study.yaml"))
	if err != nil {
		return Answer{}, err
	}
	d := &death{at: at, die: die}
	_, err = os.Stat(filepath.Join(dir, "run", ChainDir, "head.json"))
	opt := Options{Dir: filepath.Join(dir, "run"), Resume: err == nil, Key: key, Verifier: key.Public(), Observer: d,
		Text: Texts{[]byte(killedText), []byte(recipeText)}}
	opt.Files.Hook = d.hook
	return Run(context.Background(), s, opt)
}

// A study that dies at 100 points in turn, at every fourth by SIGKILL, has the same results
// and the same answer as an undisturbed one, bit for bit. With -short, it dies at 16 points.
func TestKilledAt100Points(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("skipped in short mode: kills a run a hundred times")
	}
	dir := t.TempDir()
	write(t, dir, killedText)
	private, _, err := sign.Generate(sign.Ed25519, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "key"), private, 0o600); err != nil {
		t.Fatal(err)
	}
	points := 100
	if testing.Short() {
		points = 16
	}
	for i := range points {
		at := 1 + i*7%29
		if i%4 > 0 {
			if _, err := dieAt(dir, at, func() error { return errDied }); !errors.Is(err, errDied) {
				t.Fatalf("point %d: did not die: %v", at, err)
			}
			continue
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "MM_STUDY_KILL_DIR="+dir, "MM_STUDY_KILL_AT="+strconv.Itoa(at))
		out, err := cmd.CombinedOutput()
		if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
			t.Fatalf("point %d: not killed: %v: %s", at, err, out)
		}
	}
	got, err := dieAt(dir, -1, nil)
	if err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	s, text := write(t, other, killedText)
	key, err := sign.LoadPrivate(private, nil)
	if err != nil {
		t.Fatal(err)
	}
	want, err := Run(context.Background(), s, Options{Dir: filepath.Join(other, "run"), Key: key, Verifier: key.Public(), Text: text})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the answer differs (- undisturbed, + killed): %s", diff)
	}
	a, b := openView(t, filepath.Join(other, "run"), key), openView(t, filepath.Join(dir, "run"), key)
	if diff := cmp.Diff(facts(a), facts(b)); diff != "" {
		t.Errorf("the results differ (- undisturbed, + killed): %s", diff)
	}
	if b.at.resumes < points/8 {
		t.Errorf("only %d resumptions", b.at.resumes)
	}
	t.Logf("%d kills, %d resumptions, %d rows", points, b.at.resumes, b.Report.Rows)
}

func openView(t testing.TB, dir string, key *sign.PrivateKey) *View {
	t.Helper()
	v, err := Open(dir, key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// facts returns the results of a run by cell, without its rows.
func facts(v *View) map[string]Result {
	out := map[string]Result{}
	for c, r := range v.at.results {
		out[fmt.Sprint(c)] = r.Result
	}
	return out
}
