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
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/chain"
	"mm-abi.org/mm/registry/sign"
)

// newKey returns a new Ed25519 key.
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

// unsynced skips fsync, which makes the tests slow.
var unsynced = fsx.Options{Hook: func(op *fsx.Op, do func() error) error {
	if op.Kind == fsx.OpSync || op.Kind == fsx.OpSyncDir {
		return nil
	}
	return do()
}}

func open(dir string, key *sign.PrivateKey, opt fsx.Options) (*chain.Log, error) {
	return chain.Open(context.Background(), dir, key, key.Public(), opt, nil)
}

// fill writes a log of n rows.
func fill(t *testing.T, key *sign.PrivateKey, n int) (dir string, rows []byte) {
	t.Helper()
	return fillText(t, key, n, "<é>")
}

// fillText writes a log of n rows that hold text.
func fillText(t *testing.T, key *sign.PrivateKey, n int, text string) (dir string, rows []byte) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "chain")
	l, err := open(dir, key, unsynced)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, err := l.Append(fmt.Sprintf("2026-01-01T00:00:%02dZ", i), "r", "step", map[string]any{"i": i, "text": text}); err != nil {
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

// A change of any byte of any row is detected, including the last row. Open, which is
// slower, is tried on a sample of the bytes.
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
		if i%11 > 0 {
			continue
		}
		if l, err := open(dir, key, unsynced); !errors.Is(err, chain.ErrBroken) {
			t.Fatalf("byte %d (%q) changed: opened %v, %v", i, rows[i], l, err)
		}
	}
}

// A changed row fails even if all hashes after it are recomputed: the head signs the last
// one.
func TestForgedChain(t *testing.T) {
	key := newKey(t)
	dir, rows := fill(t, key, 3)
	other := newKey(t)
	forged, more := fill(t, other, 4)
	text := strings.Split(string(more), "\n")
	put(t, dir, []byte(strings.Join(text[:3], "\n")+"\n"))
	if !bytes.Equal(rows, []byte(strings.Join(text[:3], "\n")+"\n")) {
		t.Fatal("equal rows of two keys differ")
	}
	put(t, dir, []byte(strings.Replace(string(rows), "step", "stop", 1)))
	if _, err := chain.Verify(dir, key.Public(), chain.Options{}); !errors.Is(err, chain.ErrBroken) {
		t.Error(err)
	}
	put(t, dir, more) // an unsigned row after the last
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

// Rows of one log do not verify as part of another by the same key, although every row, hash and signature is genuine.
func TestRowsOfAnotherLog(t *testing.T) {
	key := newKey(t)
	_, first := fill(t, key, 4)
	dir, second := fillText(t, key, 4, "other")
	line := func(rows []byte, n int) []byte { return bytes.SplitAfter(rows, []byte("\n"))[n] }
	for name, tc := range map[string]struct {
		rows  []byte
		words string
	}{
		"first row":    {slices.Concat(line(first, 0), line(second, 1), line(second, 2), line(second, 3)), "row 2: previous hash mismatch"},
		"complete log": {first, "row 4 differs from the signed row"},
	} {
		put(t, dir, tc.rows)
		if _, err := chain.Verify(dir, key.Public(), chain.Options{}); !errors.Is(err, chain.ErrRows) || !strings.Contains(err.Error(), tc.words) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := open(dir, key, unsynced); !errors.Is(err, chain.ErrRows) {
			t.Errorf("%s: opened: %v", name, err)
		}
	}
}

// A row of MaxRow bytes is written and read; a longer one is neither.
func TestMaxRow(t *testing.T) {
	key := newKey(t)
	_, rows := fillText(t, key, 1, "")
	text := strings.Repeat("x", chain.MaxRow-len(rows)+1) // rows ends with a newline
	dir, rows := fillText(t, key, 1, text)
	if _, err := chain.Verify(dir, key.Public(), chain.Options{}); err != nil || len(rows) != chain.MaxRow+1 {
		t.Errorf("%d bytes: %v", len(rows), err)
	}
	l, err := open(filepath.Join(t.TempDir(), "chain"), key, unsynced)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append("2026-01-01T00:00:00Z", "r", "step", map[string]any{"i": 0, "text": text + "x"}); err == nil || !strings.Contains(err.Error(), "row too long") {
		t.Errorf("a row of MaxRow+1 bytes: %v", err)
	}
	l.Close()
	put(t, dir, bytes.Replace(rows, []byte("xx"), []byte("xxx"), 1))
	if _, err := chain.Verify(dir, key.Public(), chain.Options{}); !errors.Is(err, chain.ErrRows) || !strings.Contains(err.Error(), "row 1: too long") {
		t.Errorf("a row of MaxRow+1 bytes in the log: %v", err)
	}
}

// Each kind of tampering has its own error, with its own text, and matches no other.
func TestFaults(t *testing.T) {
	key := newKey(t)
	faults := []error{chain.ErrRows, chain.ErrCut, chain.ErrBeyond, chain.ErrHead, chain.ErrKey, chain.ErrNoted, chain.ErrNone, chain.ErrUnfinished}
	lines := func(rows []byte, from, to int) []byte {
		return bytes.Join(bytes.SplitAfter(rows, []byte("\n"))[from:to], nil)
	}
	for name, tc := range map[string]struct {
		harm  func(dir string, rows, head []byte) (newRows, newHead []byte) // nil: removed
		want  error
		words string
	}{
		"changed row": {func(_ string, rows, head []byte) ([]byte, []byte) {
			return bytes.Replace(rows, []byte(`"i":1`), []byte(`"i":7`), 1), head
		}, chain.ErrRows, "row 2: hash mismatch: "},
		"removed row": {func(_ string, rows, head []byte) ([]byte, []byte) {
			return append(lines(rows, 0, 1), lines(rows, 2, 4)...), head
		}, chain.ErrRows, "row out of order: got number 3, want 2"},
		"truncated log":        {func(_ string, rows, head []byte) ([]byte, []byte) { return lines(rows, 0, 2), head }, chain.ErrCut, "got 2 rows, the signed head is row 4"},
		"empty log":            {func(_ string, rows, head []byte) ([]byte, []byte) { return nil, head }, chain.ErrCut, "got 0 rows, the signed head is row 4"},
		"missing last row":     {func(_ string, rows, head []byte) ([]byte, []byte) { return lines(rows, 0, 3), head }, chain.ErrUnfinished, "row 4"},
		"added row":            {func(_ string, rows, head []byte) ([]byte, []byte) { _, more := fill(t, key, 5); return more, head }, chain.ErrBeyond, "after row 4"},
		"missing head":         {func(_ string, rows, head []byte) ([]byte, []byte) { return rows, nil }, chain.ErrHead, "got 4 rows and no head"},
		"missing log and head": {func(_ string, rows, head []byte) ([]byte, []byte) { return nil, nil }, chain.ErrNone, "chain not found"},
		"log of another key":   {func(string, []byte, []byte) ([]byte, []byte) { return signedBy(t, newKey(t)) }, chain.ErrKey, "want " + key.Public().KeyID()[:12]},
		"log of another key under our key ID": {func(string, []byte, []byte) ([]byte, []byte) {
			other := newKey(t)
			rows, head := signedBy(t, other)
			return rows, bytes.Replace(head, []byte(other.Public().KeyID()), []byte(key.Public().KeyID()), 1)
		}, chain.ErrHead, "signature: "},
		"malformed head": {func(_ string, rows, _ []byte) ([]byte, []byte) { return rows, []byte("{") }, chain.ErrHead, "unexpected end"},
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
				t.Errorf("%s: errors.Is(%q, %q)", name, err, fault)
			}
		}
		if err != nil && !strings.Contains(err.Error(), tc.words) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// signedBy returns a log of four rows and its head, signed by key.
func signedBy(t *testing.T, key *sign.PrivateKey) (rows, head []byte) {
	t.Helper()
	dir, rows := fill(t, key, 4)
	head, err := os.ReadFile(filepath.Join(dir, chain.HeadFile))
	if err != nil {
		t.Fatal(err)
	}
	return rows, head
}

// Any truncation is detected. If only the last row is cut, Open restores the same bytes
// from the head.
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
		if n < last && n%7 > 0 { // Open is slow
			continue
		}
		l, err := open(dir, key, unsynced)
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
			t.Fatalf("cut to %d of %d: restored row differs", n, len(rows))
		}
	}
}

// An older log with its older head verifies, unless the noted hash is missing.
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

// A log has one writer, which stops after a failed write.
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
		t.Error("appended after a failed write")
	}
	l.Close()
	if l, err = open(dir, key, fsx.Options{}); err != nil || l.Last().Seq != 2 {
		t.Fatal(err)
	}
	if _, err := l.Append("t", "r", "step", strings.Repeat("x", chain.MaxRow)); err == nil {
		t.Error("appended a row over MaxRow")
	}
	l.Close()
	if r, err := chain.Verify(dir, key.Public(), chain.Options{}); err != nil || r.Rows != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}

// A growing log verifies: readers see complete rows, once and in order, and learn that a
// writer is active.
func TestVerifyWhileWriting(t *testing.T) {
	key := newKey(t)
	dir := filepath.Join(t.TempDir(), "chain")
	const rows = 400
	done := make(chan error, 1)
	first := make(chan struct{})
	go func() {
		l, err := open(dir, key, unsynced)
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
	reads, running := 0, 0
	for over := false; !over; reads++ {
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
				return fmt.Errorf("row %d shown as number %d", row.Seq, seen)
			}
			return nil
		}})
		if err != nil || r.Rows != seen || over && (r.Rows != rows || r.Running) {
			t.Fatalf("read %d: %+v, %d rows shown, %v", reads, r, seen, err)
		}
		if r.Running {
			running++
		}
	}
	if running == 0 {
		t.Errorf("no read of %d met the writer", reads)
	}
}

// A row that exists only in the head is not a fault while a writer holds the lock, and is
// one afterwards.
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

// plain is a verifier whose key the fuzzer does not have.
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
