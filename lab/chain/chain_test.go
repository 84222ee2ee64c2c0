package chain_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/chain"
	"mm-abi.org/mm/registry/sign"
)

// newKey is an Ed25519 key as mm makes them.
func newKey(t *testing.T) *sign.PrivateKey {
	t.Helper()
	private, _, err := sign.Generate(sign.Ed25519, nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := sign.LoadPrivate(private, nil)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func open(dir string, key *sign.PrivateKey, opt fsx.Options) (*chain.Log, error) {
	return chain.Open(context.Background(), dir, key, key.Public(), opt, nil)
}

// fill makes a log of n rows.
func fill(t *testing.T, key *sign.PrivateKey, n int) (dir string, rows []byte) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "chain")
	l, err := open(dir, key, fsx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, err := l.Append(fmt.Sprintf("2026-01-01T00:00:%02dZ", i), "r", "step", map[string]any{"i": i, "text": "<é>"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	rows, err = os.ReadFile(filepath.Join(dir, chain.File))
	if err != nil {
		t.Fatal(err)
	}
	return dir, rows
}

func put(t *testing.T, dir string, rows []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, chain.File), rows, 0o644); err != nil {
		t.Fatal(err)
	}
}

// Every byte of every row counts, the last one among them: its event, run and
// number as well as what it says.
func TestChangedByte(t *testing.T) {
	key := newKey(t)
	dir, rows := fill(t, key, 3)
	if r, err := chain.Verify(dir, key.Public(), chain.Options{}); err != nil || r.Rows != 3 || r.Run != "r" {
		t.Fatalf("%+v, %v", r, err)
	}
	for i := range rows {
		bad := bytes.Clone(rows)
		bad[i] ^= 1
		put(t, dir, bad)
		if _, err := chain.Verify(dir, key.Public(), chain.Options{}); !errors.Is(err, chain.ErrBroken) {
			t.Fatalf("byte %d (%q) changed: %v", i, rows[i], err)
		}
		if l, err := open(dir, key, fsx.Options{}); !errors.Is(err, chain.ErrBroken) {
			t.Fatalf("byte %d (%q) changed: opened %v, %v", i, rows[i], l, err)
		}
	}
}

// A changed row whose hash, and all hashes behind it, were made anew is still
// not what the head signs.
func TestForgedChain(t *testing.T) {
	key := newKey(t)
	dir, rows := fill(t, key, 3)
	other := newKey(t)
	forged, more := fill(t, other, 4)
	text := strings.Split(string(more), "\n")
	put(t, dir, []byte(strings.Join(text[:3], "\n")+"\n"))
	if !bytes.Equal(rows, []byte(strings.Join(text[:3], "\n")+"\n")) {
		t.Fatal("the same rows of two keys differ: the case is none")
	}
	put(t, dir, []byte(strings.Replace(string(rows), "step", "stop", 1)))
	if _, err := chain.Verify(dir, key.Public(), chain.Options{}); !errors.Is(err, chain.ErrBroken) {
		t.Error(err)
	}
	put(t, dir, more) // a row that nobody signed behind the last
	if _, err := chain.Verify(dir, key.Public(), chain.Options{}); !errors.Is(err, chain.ErrBroken) {
		t.Error(err)
	}
	if _, err := chain.Verify(forged, key.Public(), chain.Options{}); !errors.Is(err, chain.ErrBroken) {
		t.Errorf("signed by another key: %v", err)
	}
	if err := os.Remove(filepath.Join(forged, chain.HeadFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := chain.Verify(forged, other.Public(), chain.Options{}); !errors.Is(err, chain.ErrBroken) {
		t.Errorf("without a head: %v", err)
	}
}

// What was done to a log is told: each fault is its own error, with its own words,
// and none of the others.
func TestFaultsToldApart(t *testing.T) {
	key := newKey(t)
	faults := []error{chain.ErrRows, chain.ErrCut, chain.ErrBeyond, chain.ErrHead, chain.ErrKey, chain.ErrNoted, chain.ErrNone, chain.ErrUnfinished}
	lines := func(rows []byte, from, to int) []byte {
		return bytes.Join(bytes.SplitAfter(rows, []byte("\n"))[from:to], nil)
	}
	for name, tc := range map[string]struct {
		harm func(dir string, rows, head []byte) (newRows, newHead []byte) // nil: it is taken away
		want error
		said string
	}{
		"a row was changed": {func(_ string, rows, head []byte) ([]byte, []byte) {
			return bytes.Replace(rows, []byte(`"i":1`), []byte(`"i":7`), 1), head
		}, chain.ErrRows, "row 2 has the hash "},
		"a row was taken out": {func(_ string, rows, head []byte) ([]byte, []byte) {
			return append(lines(rows, 0, 1), lines(rows, 2, 4)...), head
		}, chain.ErrRows, "row 3 stands where row 2 belongs"},
		"the end was cut off":  {func(_ string, rows, head []byte) ([]byte, []byte) { return lines(rows, 0, 2), head }, chain.ErrCut, "it has 2 rows, its signed head is row 4"},
		"all was cut off":      {func(_ string, rows, head []byte) ([]byte, []byte) { return nil, head }, chain.ErrCut, "it has 0 rows, its signed head is row 4"},
		"the last row is away": {func(_ string, rows, head []byte) ([]byte, []byte) { return lines(rows, 0, 3), head }, chain.ErrUnfinished, "row 4"},
		"a row was added":      {func(_ string, rows, head []byte) ([]byte, []byte) { _, more := fill(t, key, 5); return more, head }, chain.ErrBeyond, "behind row 4"},
		"the head is away":     {func(_ string, rows, head []byte) ([]byte, []byte) { return rows, nil }, chain.ErrHead, "there are 4 rows and no head"},
		"all is away":          {func(_ string, rows, head []byte) ([]byte, []byte) { return nil, nil }, chain.ErrNone, "there is no chain"},
		"another key's":        {func(string, []byte, []byte) ([]byte, []byte) { return signedBy(t, newKey(t)) }, chain.ErrKey, "signed its head, not " + key.Public().KeyID()[:12]},
		"another key's under ours": {func(string, []byte, []byte) ([]byte, []byte) {
			other := newKey(t)
			rows, head := signedBy(t, other)
			return rows, bytes.Replace(head, []byte(other.Public().KeyID()), []byte(key.Public().KeyID()), 1)
		}, chain.ErrHead, "its signature: "},
		"no head at all": {func(_ string, rows, _ []byte) ([]byte, []byte) { return rows, []byte("{") }, chain.ErrHead, "unexpected end"},
	} {
		dir, rows := fill(t, key, 4)
		at := filepath.Join(dir, chain.HeadFile)
		head, err := os.ReadFile(at)
		if err != nil {
			t.Fatal(err)
		}
		rows, head = tc.harm(dir, rows, head)
		for path, data := range map[string][]byte{filepath.Join(dir, chain.File): rows, at: head} {
			if data == nil {
				err = os.Remove(path)
			} else {
				err = os.WriteFile(path, data, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		_, err = chain.Verify(dir, key.Public(), chain.Options{})
		for _, fault := range faults {
			if errors.Is(err, fault) != (fault == tc.want) {
				t.Errorf("%s: is %q taken for %q", name, err, fault)
			}
		}
		if err != nil && !strings.Contains(err.Error(), tc.said) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// signedBy is a log of four rows under the head of a key.
func signedBy(t *testing.T, key *sign.PrivateKey) (rows, head []byte) {
	t.Helper()
	dir, rows := fill(t, key, 4)
	head, err := os.ReadFile(filepath.Join(dir, chain.HeadFile))
	if err != nil {
		t.Fatal(err)
	}
	return rows, head
}

// Whatever is cut off the end is noticed. Where it is no more than the last row,
// Open has it from the head, and writes the same bytes again.
func TestCut(t *testing.T) {
	key := newKey(t)
	dir, rows := fill(t, key, 4)
	last := bytes.LastIndexByte(rows[:len(rows)-1], '\n') + 1
	for n := range len(rows) {
		put(t, dir, rows[:n])
		_, err := chain.Verify(dir, key.Public(), chain.Options{})
		want := chain.ErrBroken
		if n >= last {
			want = chain.ErrUnfinished
		}
		if !errors.Is(err, want) {
			t.Fatalf("cut to %d of %d: %v, want %v", n, len(rows), err, want)
		}
		l, err := open(dir, key, fsx.Options{})
		if n < last {
			if !errors.Is(err, chain.ErrBroken) {
				t.Fatalf("cut to %d of %d: %v", n, len(rows), err)
			}
			continue
		}
		if err != nil || l.Last().Seq != 4 {
			t.Fatalf("cut to %d of %d: %v", n, len(rows), err)
		}
		l.Close()
		if now, _ := os.ReadFile(filepath.Join(dir, chain.File)); !bytes.Equal(now, rows) {
			t.Fatalf("cut to %d of %d: the end is another", n, len(rows))
		}
	}
}

// An older log with its older head is sound, and lacks the hash that was noted.
func TestNoted(t *testing.T) {
	key := newKey(t)
	dir, _ := fill(t, key, 2)
	r, err := chain.Verify(dir, key.Public(), chain.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := chain.Verify(dir, key.Public(), chain.Options{Noted: r.Head}); err != nil {
		t.Error(err)
	}
	if _, err := chain.Verify(dir, key.Public(), chain.Options{Noted: strings.Repeat("1", 64)}); !errors.Is(err, chain.ErrBroken) {
		t.Error(err)
	}
}

// One writer a log, and none that goes on behind a row that failed.
func TestWriters(t *testing.T) {
	key := newKey(t)
	dir, _ := fill(t, key, 1)
	full := errors.New("disk full")
	var fail bool
	l, err := open(dir, key, fsx.Options{Hook: func(op *fsx.Op, do func() error) error {
		if fail && op.Kind == fsx.OpWrite && op.Name == chain.File {
			op.Data = op.Data[:5]
			return errors.Join(full, do())
		}
		return do()
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open(dir, key, fsx.Options{}); !errors.Is(err, fsx.ErrLocked) {
		t.Errorf("a second writer: %v", err)
	}
	fail = true
	if _, err := l.Append("t", "r", "step", 1); !errors.Is(err, full) {
		t.Error(err)
	}
	fail = false
	if _, err := l.Append("t", "r", "step", 2); err == nil {
		t.Error("went on behind a row that was not written")
	}
	l.Close()
	if l, err = open(dir, key, fsx.Options{}); err != nil || l.Last().Seq != 2 {
		t.Fatal(err)
	}
	if _, err := l.Append("t", "r", "step", strings.Repeat("x", chain.MaxRow)); err == nil {
		t.Error("a row over the limit")
	}
	l.Close()
	if r, err := chain.Verify(dir, key.Public(), chain.Options{}); err != nil || r.Rows != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}

// A log is sound while it grows: whoever looks finds whole rows, each once and in
// order, and no fault; and is told that somebody writes.
func TestVerifyWhileWriting(t *testing.T) {
	key := newKey(t)
	dir := filepath.Join(t.TempDir(), "chain")
	const rows = 400
	done := make(chan error, 1)
	first := make(chan struct{})
	go func() {
		unsynced := func(op *fsx.Op, do func() error) error {
			if op.Kind == fsx.OpSync || op.Kind == fsx.OpSyncDir {
				return nil
			}
			return do()
		}
		l, err := open(dir, key, fsx.Options{Hook: unsynced})
		close(first)
		for i := 0; err == nil && i < rows; i++ {
			_, err = l.Append("t", "r", "step", i)
		}
		if err == nil {
			err = l.Close()
		}
		done <- err
	}()
	<-first
	looks, running := 0, 0
	for over := false; !over; looks++ {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			over = true
		default:
		}
		seen := 0
		r, err := chain.Verify(dir, key.Public(), chain.Options{Each: func(row chain.Row) error {
			if seen++; row.Seq != seen {
				return fmt.Errorf("row %d is shown as number %d", row.Seq, seen)
			}
			return nil
		}})
		if err != nil || r.Rows != seen || over && (r.Rows != rows || r.Running) {
			t.Fatalf("look %d: %+v, %d rows shown, %v", looks, r, seen, err)
		}
		if r.Running {
			running++
		}
	}
	if running == 0 {
		t.Errorf("none of %d looks met the writer: the case is none", looks)
	}
}

// A row in the head alone is no fault while its writer lives, and one once it is
// dead.
func TestLastRowOfWriter(t *testing.T) {
	key := newKey(t)
	dir, rows := fill(t, key, 3)
	put(t, dir, rows[:len(rows)-4])
	d, err := fsx.Open(dir, fsx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	lock, err := d.TryLock(context.Background(), chain.LockFile)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := chain.Verify(dir, key.Public(), chain.Options{}); err != nil || r.Rows != 2 || !r.Running {
		t.Errorf("%+v, %v", r, err)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	if r, err := chain.Verify(dir, key.Public(), chain.Options{}); !errors.Is(err, chain.ErrUnfinished) || r.Running {
		t.Errorf("%+v, %v", r, err)
	}
}

func FuzzVerify(f *testing.F) {
	key := ed25519.NewKeyFromSeed(make([]byte, 32))
	f.Add([]byte(`{"seq":1}`), []byte(`{"key":"k","row":"{}","signature":""}`))
	f.Fuzz(func(t *testing.T, rows, head []byte) {
		dir := t.TempDir()
		put(t, dir, rows)
		if err := os.WriteFile(filepath.Join(dir, chain.HeadFile), head, 0o644); err != nil {
			t.Fatal(err)
		}
		if r, err := chain.Verify(dir, plain{key}, chain.Options{}); err == nil {
			t.Fatalf("%+v of %q under %q", r, rows, head)
		}
	})
}

// plain is a verifier whose signatures nobody can make here.
type plain struct{ ed25519.PrivateKey }

func (plain) KeyID() string { return "k" }

func (p plain) VerifyPayload(typ string, payload, sig []byte) error {
	var v any
	if err := json.Unmarshal(payload, &v); err != nil {
		return err
	}
	if !ed25519.Verify(p.Public().(ed25519.PublicKey), append([]byte(typ), payload...), sig) {
		return errors.New("invalid signature")
	}
	return nil
}
