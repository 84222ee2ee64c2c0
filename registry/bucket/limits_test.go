package bucket

import (
	"errors"
	"fmt"
	"io"
	"net/http"
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
