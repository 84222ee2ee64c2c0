package device_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/device"
)

// Remove removes mm's files and nothing else.
func TestRemove(t *testing.T) {
	hex := strings.Repeat("0123456789abcdef", 4)
	for name, tc := range map[string]struct {
		folder string
		files  []string
		push   bool
		code   diag.Code
		left   []string // remaining files
	}{
		"missing folder": {},
		"foreign folder": {files: []string{"notes", "sub/notes"}, code: diag.DeviceFolder, left: []string{"notes", "sub/notes"}},
		"foreign runs":   {files: []string{"runs/best", "sha256/sums", "part/one"}, code: diag.DeviceFolder, left: []string{"part/one", "runs/best", "sha256/sums"}},
		"both": {files: []string{"notes", "runs/best", "sha256/sums", "part/" + hex + ".seg", "runs/" + hex[:16] + "/begin", ".mm-" + hex[:16]}, push: true,
			left: []string{"notes", "runs/best", "sha256/sums"}},
		"without the marker": {files: []string{"notes", "sha256/" + hex, "part/" + hex, "runs/" + hex[:16] + "/out/0000/0.raw"}, left: []string{"notes"}},
		"relative path":      {folder: "mm", code: diag.DeviceFolder},
		"root":               {folder: "/data/..", code: diag.DeviceFolder},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, double, 4096)
			base := "/data/local/tmp/own/"
			w.device.Folder = base
			if tc.folder != "" {
				w.device.Folder = tc.folder
			}
			for _, f := range tc.files {
				if err := w.phone.WriteFile(base+f, []byte("precious")); err != nil {
					t.Fatal(err)
				}
			}
			f, err := device.NewFile("context.bin", w.kit.Context)
			if err != nil {
				t.Fatal(err)
			}
			if tc.push {
				if _, err := w.device.Push(t.Context(), f); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.device.Remove(t.Context()); first(err) != tc.code || tc.code == "" && err != nil {
				t.Errorf("%v, want %s", err, tc.code)
			}
			var left []string
			for _, f := range w.phone.List(base) {
				left = append(left, strings.TrimPrefix(f, base))
			}
			if d := cmp.Diff(tc.left, left); d != "" {
				t.Error(d)
			}
			if tc.folder == "" {
				return
			}
			if _, err := w.device.Push(t.Context(), f); first(err) != tc.code {
				t.Errorf("push: %v", err)
			}
			if _, err := w.device.Run(t.Context(), w.job); first(err) != tc.code {
				t.Errorf("run: %v", err)
			}
			if _, err := w.device.Pull(t.Context(), "x", t.TempDir()+"/x"); first(err) != tc.code {
				t.Errorf("pull: %v", err)
			}
		})
	}
}
