package main

import (
	"archive/zip"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A wheel is the same bytes twice, has executable programs, and installs where pip exists.
func TestWheel(t *testing.T) {
	r := &release{version: "1.2.3", out: t.TempDir(), work: t.TempDir(), date: time.Unix(1_700_000_000, 0).UTC()}
	r.notices = filepath.Join(r.work, "THIRD_PARTY_NOTICES.txt")
	writeFile(t, r.notices, "notices")
	var files []string
	for _, p := range programs {
		files = append(files, filepath.Join(r.work, p))
		writeFile(t, files[len(files)-1], "#!/bin/sh\necho 1.2.3\n")
	}
	t.Chdir("../..")
	var sums []string
	var path string
	for range 2 {
		var err error
		if path, err = r.wheel("linux/amd64", files); err != nil {
			t.Fatal(err)
		}
		sum, err := hash(path)
		if err != nil {
			t.Fatal(err)
		}
		sums = append(sums, string(sum))
	}
	if sums[0] != sums[1] {
		t.Error("two runs give different wheels")
	}
	z, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	modes := map[string]uint32{}
	for _, f := range z.File {
		modes[f.Name] = uint32(f.Mode().Perm())
	}
	for name, want := range map[string]uint32{"multimod-1.2.3.data/scripts/mm": 0o755, "multimod/client.py": 0o644, "multimod/py.typed": 0o644, "multimod-1.2.3.dist-info/RECORD": 0o644} {
		if modes[name] != want {
			t.Errorf("%s: got mode %o, want %o", name, modes[name], want)
		}
	}
	if _, err := r.wheel("plan9/386", files); err == nil {
		t.Error("plan9/386 has a wheel")
	}
	if testing.Short() {
		t.Skip("skipped in short mode: makes a virtual environment of Python")
	}
	installWheel(t, path)
}

// installWheel installs a wheel with the machine's Python.
func installWheel(t *testing.T, path string) {
	t.Helper()
	dir := t.TempDir()
	if err := exec.Command("python3", "-m", "venv", dir).Run(); err != nil {
		t.Logf("skipped: no python3 with venv: %v", err)
		return
	}
	python := filepath.Join(dir, "bin", "python")
	if out, err := exec.Command(python, "-m", "pip", "install", "--no-index", path).CombinedOutput(); err != nil {
		t.Fatalf("pip: %v\n%s", err, out)
	}
	out, err := exec.Command(python, "-c", "import multimod, multimod.process as p; print(multimod.__version__, p.find())").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "1.2.3 "+dir) {
		t.Errorf("installed client: got %q, %v, want 1.2.3 and the program of %s", out, err, dir)
	}
}
