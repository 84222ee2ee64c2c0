package bucket

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/internal/fsx"
)

// Each limit has a case on either side.
func TestLimits(t *testing.T) {
	if err := CheckKey(strings.Repeat("k", maxKey)); err != nil {
		t.Errorf("maxKey: %v", err)
	}
	if err := CheckKey(strings.Repeat("k", maxKey+1)); !errors.Is(err, ErrKey) {
		t.Errorf("maxKey+1: %v", err)
	}
	for n, want := range map[int]error{maxListed: nil, maxListed + 1: ErrAnswer} {
		if err := inOrder(Info{Key: "b"}, "", "a", n, true); !errors.Is(err, want) {
			t.Errorf("maxListed %d: %v", n, err)
		}
	}
	for n, want := range map[int]error{maxPages - 1: nil, maxPages: ErrAnswer} {
		page, got := 0, error(nil)
		for _, err := range Pages("", true, func(string) ([]Info, string, error) {
			if page++; page > n {
				return nil, "", nil
			}
			return nil, fmt.Sprint(page), nil
		}) {
			got = err
		}
		if !errors.Is(got, want) {
			t.Errorf("maxPages %d: %v", n, got)
		}
	}
	for n, want := range map[int]error{maxText: nil, maxText + 1: ErrAnswer} {
		_, err := ReadText(&http.Response{Body: io.NopCloser(strings.NewReader(strings.Repeat("x", n)))})
		if !errors.Is(err, want) {
			t.Errorf("maxText %d: %v", n, err)
		}
	}
	for n, want := range map[int]int{maxSession: maxSession, maxSession + 1: 0} {
		s := session{filepath.Join(t.TempDir(), "s")}
		if err := s.Save(strings.Repeat("x", n)); err != nil || len(s.Load()) != want {
			t.Errorf("maxSession %d: %v, %d bytes", n, err, len(s.Load()))
		}
	}
	b, err := OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for n, want := range map[int]error{maxPointer: nil, maxPointer + 1: fsx.ErrTooLarge} {
		if _, err := PutBytes(t.Context(), b, "p", make([]byte, n), false); err != nil {
			t.Fatal(err)
		}
		if _, err := GetBytes(t.Context(), b, "p", maxPointer); !errors.Is(err, want) {
			t.Errorf("maxPointer %d: %v", n, err)
		}
	}
}

// deltaOf describes a file of n pieces of one byte.
func deltaOf(n int) []byte {
	digest := strings.Repeat("ab", 32)
	var b strings.Builder
	fmt.Fprintf(&b, `{"size":%d,"sha256":%q,"pieces":[`, n, digest)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"size":1,"sha256":%q}`, digest)
	}
	b.WriteString("]}")
	return []byte(b.String())
}

func TestDeltaLimits(t *testing.T) {
	for n, want := range map[int]error{0: ErrAnswer, 1: nil, maxPieces: nil, maxPieces + 1: ErrAnswer} {
		if _, err := parseDelta(deltaOf(n)); !errors.Is(err, want) {
			t.Errorf("maxPieces %d: %v", n, err)
		}
	}
	if n := len(deltaOf(maxPieces)); n > maxDelta {
		t.Errorf("a delta of %d pieces has %d bytes, limit %d", maxPieces, n, maxDelta)
	}
	b, err := OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	pad := func(n int) []byte { return append(deltaOf(1), strings.Repeat(" ", n-len(deltaOf(1)))...) }
	for n, want := range map[int]error{maxDelta: nil, maxDelta + 1: fsx.ErrTooLarge} {
		if _, err := PutBytes(t.Context(), b, "f"+DeltaSuffix, pad(n), false); err != nil {
			t.Fatal(err)
		}
		if _, err := readDelta(t.Context(), b, "f"); !errors.Is(err, want) {
			t.Errorf("maxDelta %d: %v", n, err)
		}
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(maxPieces + 1); err != nil {
		t.Fatal(err)
	}
	cuts := make([]int64, maxPieces)
	for i := range cuts {
		cuts[i] = int64(i + 1)
	}
	for n, fine := range map[int]bool{maxPieces - 1: true, maxPieces: false} {
		if _, err := divide(t.Context(), f, maxPieces+1, cuts[:n]); (err == nil) != fine {
			t.Errorf("%d cuts: %v", n, err)
		}
	}
	for _, cuts := range [][]int64{{0}, {5, 5}, {5, 4}, {maxPieces + 1}, {maxPieces + 2}} {
		if _, err := divide(t.Context(), f, maxPieces+1, cuts); err == nil {
			t.Errorf("cuts %v: no error", cuts)
		}
	}
}

func FuzzDelta(f *testing.F) {
	f.Add(deltaOf(2))
	f.Add([]byte(`{"size":9223372036854775807,"sha256":"","pieces":[{"size":-1}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := parseDelta(data)
		if err != nil {
			return
		}
		sum := int64(0)
		for _, p := range d.Pieces {
			if sum += p.Size; p.Size < 1 || sum < 0 || !IsDigest(p.SHA256) {
				t.Fatalf("piece %+v", p)
			}
		}
		if sum != d.Size {
			t.Fatalf("pieces have %d bytes of %d", sum, d.Size)
		}
	})
}
