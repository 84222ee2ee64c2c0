package registry

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/registry/artifact"
)

// TestMain runs the roles of child processes in the test binary.
func TestMain(m *testing.M) {
	if role := os.Getenv("MM_TEST_ROLE"); role != "" {
		if err := play(role, os.Getenv("MM_TEST_STORE"), os.Getenv("MM_TEST_SEED")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(testfiles.InMemory(m))
}

// spawn starts a process of the role and returns its wait function.
func spawn(t *testing.T, role, store string, seed int) (cmd *exec.Cmd, wait func() string) {
	t.Helper()
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "MM_TEST_ROLE="+role, "MM_TEST_STORE="+store, "MM_TEST_SEED="+strconv.Itoa(seed))
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, func() string {
		if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() > 0 {
			t.Errorf("%s %d: %v\n%s", role, seed, err, out.String())
		}
		return out.String()
	}
}

func play(role, dir, seedText string) error {
	seed, err := strconv.Atoi(seedText)
	if err != nil {
		return err
	}
	s, err := Open(dir, Options{ReadOnly: role == "read", Journal: seed%2 == 1})
	if err != nil {
		return err
	}
	defer s.Close()
	switch role {
	case "tag":
		return playTag(s, seed)
	case "push":
		return playPush(s, seed)
	case "gc":
		return playGC(s)
	case "read":
		return playRead(s)
	case "partial":
		return playPartial(s)
	case "check":
		return playCheck(s, seed)
	}
	return fmt.Errorf("no role %q", role)
}

func playTag(s *Store, seed int) error {
	for i := range 20 {
		desc, err := sample(s, "sample", uint64(seed*100+i))
		if err != nil {
			return err
		}
		if err := s.Tag(ctx, desc, fmt.Sprintf("p%d:%d", seed, i)); err != nil {
			return err
		}
	}
	return nil
}

// playCheck finds the store sound and all tags of the tagger there.
func playCheck(s *Store, seed int) error {
	report, err := s.Fsck(ctx, FsckOptions{})
	if err != nil || len(report.Problems)+len(report.Notes) > 0 {
		return fmt.Errorf("%+v: %w", report, errors.Join(err, artifact.ErrCorrupt))
	}
	for i := range 20 {
		if err := whole(s, fmt.Sprintf("p%d:%d", seed, i)); err != nil {
			return err
		}
	}
	return nil
}

// TestProcessesTag has 16 processes set 20 tags each on one store that none of
// them finds ready made.
func TestProcessesTag(t *testing.T) {
	dir := filepath.Join(scratch(t), "store")
	var waits []func() string
	for p := range 16 {
		_, wait := spawn(t, "tag", dir, p)
		waits = append(waits, wait)
	}
	for _, wait := range waits {
		wait()
	}
	s := open(t, dir, Options{MustExist: true})
	report := sound(t, s)
	if report.Tags != 320 {
		t.Errorf("%d tags of 320", report.Tags)
	}
	t.Logf("%d of 320 tags kept", report.Tags)
}

// hammerTime is how long the processes of TestProcessesHammer work.
const hammerTime = 3 * time.Second

// hammerGrace is far below the age that blobs reach meanwhile, and above the
// duration of a push here.
const hammerGrace = 700 * time.Millisecond

// playPush packs artifacts from a few shared files, so that it often reuses
// blobs which were unnamed for longer than the grace period. A tagged artifact
// must be complete immediately, and until it is untagged.
func playPush(s *Store, seed int) error {
	rng := rand.New(rand.NewPCG(uint64(seed), 1))
	mine := map[string]uint64{}
	tags, late := 0, 0
	for end := time.Now().Add(hammerTime); time.Now().Before(end); {
		content := rng.Uint64N(12)
		if rng.IntN(2) == 0 {
			content = 100 + rng.Uint64N(100)
		}
		ref := fmt.Sprintf("h%d:%d", seed, rng.IntN(4))
		desc, err := sample(s, "sample", content)
		if err != nil {
			return err
		}
		err = s.Tag(ctx, desc, ref)
		if errors.Is(err, errdef.ErrNotFound) {
			late++ // descheduled for longer than the grace: refused, not broken
			continue
		}
		if err != nil {
			return err
		}
		tags++
		mine[ref] = content
		if err := whole(s, ref); err != nil {
			return fmt.Errorf("just tagged: %w", err)
		}
		if rng.IntN(2) == 0 {
			time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
			if err := whole(s, ref); err != nil {
				return fmt.Errorf("tagged a while: %w", err)
			}
			if err := s.Untag(ctx, ref); err != nil {
				return err
			}
			delete(mine, ref)
		}
	}
	for ref := range mine {
		if err := whole(s, ref); err != nil {
			return fmt.Errorf("at the end: %w", err)
		}
	}
	fmt.Printf("%d tags, %d late\n", tags, late)
	return nil
}

// whole checks that all content of ref exists and is valid.
func whole(s *Store, ref string) error {
	desc, err := s.Resolve(ctx, ref)
	if err != nil {
		return err
	}
	a, err := artifact.Read(ctx, s, desc)
	if err != nil {
		return fmt.Errorf("%s: %w", ref, err)
	}
	for _, l := range a.Layers {
		if err := s.Verify(ctx, l.Descriptor); err != nil {
			return fmt.Errorf("%s: %s: %w", ref, l.Path, err)
		}
	}
	return nil
}

// collected is the last line of playGC.
const collected = "%d collections took %d blobs\n"

func playGC(s *Store) error {
	runs, blobs := 0, 0
	for end := time.Now().Add(hammerTime); time.Now().Before(end); runs++ {
		report, err := s.GC(ctx, GCOptions{Grace: hammerGrace})
		if err != nil {
			return err
		}
		blobs += len(report.Blobs)
		time.Sleep(5 * time.Millisecond)
	}
	fmt.Printf(collected, runs, blobs)
	return nil
}

// playRead reads pinned artifacts repeatedly: they must always exist.
func playRead(s *Store) error {
	reads := 0
	for end := time.Now().Add(hammerTime); time.Now().Before(end); reads++ {
		if err := whole(s, "pinned:1"); err != nil {
			return err
		}
		desc, err := s.Resolve(ctx, "pinned:1")
		if err != nil {
			return err
		}
		if sigs, err := s.Referrers(ctx, desc, ""); err != nil || len(sigs) != 1 {
			return fmt.Errorf("%d signatures: %w", len(sigs), err)
		}
	}
	fmt.Printf("%d reads\n", reads)
	return nil
}

// TestProcessesHammer runs eight processes that push, tag and untag, two that
// collect garbage and one that reads. It also kills pushers at random moments.
func TestProcessesHammer(t *testing.T) {
	dir := filepath.Join(scratch(t), "store")
	s := open(t, dir, Options{})
	desc := tagged(t, s, "pinned:1", 1000)
	if _, err := attach(s, desc, "x/sig", "pinned"); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var gone atomic.Int64
	for p := range 11 {
		role := "push"
		if p >= 8 {
			role = []string{"gc", "gc", "read"}[p-8]
		}
		_, wait := spawn(t, role, dir, p)
		wg.Go(func() {
			said := wait()
			t.Logf("%s %d: %s", role, p, strings.TrimSpace(said))
			var runs, blobs int64
			fmt.Sscanf(said, collected, &runs, &blobs)
			gone.Add(blobs)
		})
	}
	rng := rand.New(rand.NewPCG(5, 5))
	for p := 20; p < 30; p++ {
		cmd, wait := spawn(t, "push", dir, p)
		time.Sleep(time.Duration(20+rng.IntN(200)) * time.Millisecond)
		cmd.Process.Kill()
		wait()
	}
	wg.Wait()
	if gone.Load() == 0 { // by either; one may have had no turn
		t.Error("nothing was ever collected")
	}
	report := sound(t, s)
	t.Logf("after 10 kills: %d tags, %d blobs, %d leftovers, 0 problems", report.Tags, report.Blobs, report.Temp)
	if _, err := s.GC(ctx, GCOptions{Grace: -1}); err != nil {
		t.Fatal(err)
	}
	sound(t, s)
}

// TestGCNeedsMarks shows that the hammer can fail: an old, unnamed blob is
// removed unless it is marked first.
func TestGCNeedsMarks(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	old := time.Now().Add(-48 * time.Hour)
	desc, err := sample(s, "sample", 1)
	if err != nil {
		t.Fatal(err)
	}
	a, err := artifact.Read(ctx, s, desc)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range a.Layers {
		os.Chtimes(s.BlobPath(l.Descriptor), old, old)
	}
	if ok, err := s.Exists(ctx, a.Layers[0].Descriptor); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if _, err := s.AddBytes(ctx, abi.MediaWeight, noise(1, int(a.Layers[1].Descriptor.Size))); err != nil {
		t.Fatal(err)
	}
	report, err := s.GC(ctx, GCOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Blobs) != 1 || report.Blobs[0] != a.Layers[2].Descriptor.Digest {
		t.Errorf("collected %v, want the one unmarked layer %s", report.Blobs, a.Layers[2].Descriptor.Digest)
	}
}
