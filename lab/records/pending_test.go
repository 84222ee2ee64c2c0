package records_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"mm-abi.org/mm/lab/records"
)

func TestPending(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	list, file := filepath.Join(dir, "pending.jsonl"), filepath.Join(dir, "a.bin")
	if _, err := records.Uploads(ctx, list); err == nil {
		t.Error("read a missing list")
	}
	u := records.Upload{File: file, Target: records.UploadTarget{Kind: "hf_model", Repo: "o/r", Path: "x/a.bin"}, Blocked: "no token", Queued: "2026-01-01T00:00:00Z"}
	if got, err := records.AddUpload(ctx, list, u, false); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("missing file: %+v, %v", got, err)
	}
	first, err := records.AddUpload(ctx, list, u, true)
	if err != nil || first.SHA256 != records.Absent {
		t.Fatalf("%+v, %v", first, err)
	}
	if err := os.WriteFile(file, []byte("abc"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	u.File = "a.bin" // a relative path
	second, err := records.AddUpload(ctx, list, u, false)
	if second.File != file {
		t.Errorf("recorded as %s", second.File)
	}
	t.Chdir(t.TempDir())
	u.File = file
	if err != nil || second.Bytes != 3 || second.SHA256 != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" || second.ID == first.ID {
		t.Fatalf("%+v, %v", second, err)
	}
	u.Queued = "2026-01-02T00:00:00Z"
	if again, err := records.AddUpload(ctx, list, u, false); err != nil || again != second {
		t.Errorf("%+v, %v", again, err)
	}
	states := func() (out []string) {
		t.Helper()
		items, err := records.Uploads(ctx, list)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range items {
			out = append(out, i.State)
		}
		return out
	}
	if s := states(); len(s) != 2 || s[0] != "changed" || s[1] != "ready" {
		t.Errorf("%v", s)
	}
	if err := os.WriteFile(file, []byte("abd"), 0o644); err != nil {
		t.Fatal(err)
	}
	if s := states(); s[1] != "changed" {
		t.Errorf("%v", s)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if s := states(); s[0] != "absent" || s[1] != "absent" {
		t.Errorf("%v", s)
	}
	for name, change := range map[string]func(*records.Upload){
		"kind":        func(u *records.Upload) { u.Target.Kind = "ftp" },
		"no repo":     func(u *records.Upload) { u.Target.Repo = "" },
		"traversal":   func(u *records.Upload) { u.Target.Path = "../x" },
		"absolute":    func(u *records.Upload) { u.Target.Path = "/x" },
		"folder":      func(u *records.Upload) { u.File = dir },
		"not blocked": func(u *records.Upload) { u.Blocked = "" },
	} {
		bad := u
		change(&bad)
		if got, err := records.AddUpload(ctx, list, bad, true); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
