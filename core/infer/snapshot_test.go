package infer

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// TestSnapshot: a session resumes a saved one, and the same session writes the
// same bytes.
func TestSnapshot(t *testing.T) {
	cfg, weights := stories(t)
	for _, store := range []string{"f32", "f16", "q8_0"} {
		for _, n := range []int{0, 1, 100, 256, 300} {
			s := open(t, cfg, weights, SessionOptions{KV: store})
			tokens := make([]int32, n)
			for i := range tokens {
				tokens[i] = int32(i*i%500 + 1)
			}
			if err := s.Feed(t.Context(), tokens); err != nil {
				t.Fatal(err)
			}
			var saved, again bytes.Buffer
			if err := s.WriteSnapshot(&saved); err != nil {
				t.Fatal(err)
			}
			// Discarded positions leave no trace.
			if err := s.Feed(t.Context(), []int32{7, 8, 9}); err != nil {
				t.Fatal(err)
			}
			s.Truncate(n)
			if n > 0 {
				if _, err := s.Prompt(t.Context(), tokens); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.WriteSnapshot(&again); err != nil {
				t.Fatal(err)
			}
			if n > 0 && !bytes.Equal(saved.Bytes(), again.Bytes()) {
				t.Errorf("kv %s, %d positions: the same text gives another snapshot", store, n)
			}
			back := open(t, cfg, weights, SessionOptions{KV: store})
			if err := back.ReadSnapshot(iotest.HalfReader(&saved)); err != nil {
				t.Fatal(err)
			}
			if back.Len() != n || !slices.Equal(back.Tokens(), tokens) || (back.Logits() != nil) != (n > 0) || n > 0 && !slices.Equal(back.Logits(), s.Logits()) {
				t.Fatalf("kv %s: %d positions came back as %d", store, n, back.Len())
			}
			for _, token := range []int32{5, 6} {
				if err := errors.Join(s.Feed(t.Context(), []int32{token}), back.Feed(t.Context(), []int32{token})); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal(back.Logits(), s.Logits()) {
				t.Errorf("kv %s, %d positions: the text goes on differently", store, n)
			}
		}
	}
}

// TestSnapshotRefused: each kind of foreign or damaged file is refused with its
// reason, and the session is unchanged.
func TestSnapshotRefused(t *testing.T) {
	cfg := tiny("llama", 10)
	weights := random(cfg, 1)
	s := open(t, cfg, weights, SessionOptions{})
	if err := s.Feed(t.Context(), []int32{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	var saved bytes.Buffer
	if err := s.WriteSnapshot(&saved); err != nil {
		t.Fatal(err)
	}
	good := saved.Bytes()
	change := func(at int, b ...byte) []byte {
		c := slices.Clone(good)
		copy(c[at:], b)
		return c
	}
	// signed repairs the digest, as a forger would.
	signed := func(b []byte) []byte {
		sum := sha256.Sum256(b[:len(b)-sha256.Size])
		copy(b[len(b)-sha256.Size:], sum[:])
		return b
	}
	const tokens = maxSnapshotHead
	logits := len(good) - sha256.Size - 4*cfg.Vocab - 4
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"empty":          {nil, "truncated"},
		"cut in head":    {good[:20], "truncated"},
		"cut in tokens":  {good[:tokens+5], "truncated"},
		"cut in chunk":   {good[:tokens+5000], "truncated"},
		"cut in digest":  {good[:len(good)-1], "digest"},
		"more":           {append(slices.Clone(good), 0), "digest"},
		"magic":          {signed(change(0, 'X')), "not a snapshot"},
		"version":        {signed(change(4, 2)), "version 2"},
		"other model":    {signed(change(8, good[8]^1)), "another model"},
		"other type":     {signed(change(40, 0)), "another shape"},
		"other layers":   {signed(change(44, 3)), "another shape"},
		"many positions": {signed(change(tokens-4, 255, 255, 255, 255)), "limit 64"},
		"some positions": {signed(change(tokens-4, 65, 0, 0, 0)), "limit 64"},
		"token":          {signed(change(tokens, 10, 0, 0, 0)), "out of range"},
		"negative token": {signed(change(tokens, 0xfe, 0xff, 0xff, 0xff)), "out of range"},
		"flipped bit":    {change(tokens+4000, good[tokens+4000]^4), "digest"},
		"logits":         {signed(change(logits, 11, 0, 0, 0)), "11 logits"},
	} {
		err := s.ReadSnapshot(bytes.NewReader(c.file))
		if !errors.Is(err, ErrSnapshot) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", name, err, c.want)
		}
	}
	// Q8_0 keys have an older layout.
	eight := open(t, cfg, weights, SessionOptions{KV: "q8_0"})
	if err := eight.Feed(t.Context(), []int32{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	var old bytes.Buffer
	if err := eight.WriteSnapshot(&old); err != nil {
		t.Fatal(err)
	}
	old.Bytes()[4] = 1
	for want, file := range map[string][]byte{"got version 1, want 2": signed(old.Bytes()), "another shape or type": good} {
		if err := eight.ReadSnapshot(bytes.NewReader(file)); !errors.Is(err, ErrSnapshot) || !strings.Contains(err.Error(), want) {
			t.Errorf("into a session of Q8_0: %v, want %q in it", err, want)
		}
	}
	if err := s.ReadSnapshot(iotest.ErrReader(io.ErrClosedPipe)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a failing reader: %v", err)
	}
	other := open(t, cfg, random(cfg, 2), SessionOptions{})
	if err := other.ReadSnapshot(bytes.NewReader(good)); !errors.Is(err, ErrSnapshot) {
		t.Errorf("a snapshot of another model: %v", err)
	}
	if s.Len() != 3 || s.Logits() == nil {
		t.Error("a refused snapshot changed the session")
	}
	// The test assumes the layout above.
	if n := binary.LittleEndian.Uint32(good[logits:]); int(n) != cfg.Vocab {
		t.Errorf("%d logits", n)
	}
}

// FuzzReadSnapshot reads any bytes; only the digest of a complete file makes it
// valid.
func FuzzReadSnapshot(f *testing.F) {
	cfg := tiny("llama", 10)
	s := open(f, cfg, random(cfg, 1), SessionOptions{})
	if err := s.Feed(f.Context(), []int32{1, 2, 3}); err != nil {
		f.Fatal(err)
	}
	var saved bytes.Buffer
	if err := s.WriteSnapshot(&saved); err != nil {
		f.Fatal(err)
	}
	f.Add(saved.Bytes())
	f.Add(saved.Bytes()[:maxSnapshotHead])
	f.Fuzz(func(t *testing.T, b []byte) {
		err := s.ReadSnapshot(bytes.NewReader(b))
		if err != nil && !errors.Is(err, ErrSnapshot) {
			t.Fatal(err)
		}
		if err == nil && !bytes.Equal(b, saved.Bytes()) && s.Len() > s.Context() {
			t.Fatal("a damaged snapshot was taken")
		}
	})
}
