package native_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/runtimetest"
)

// write writes an executable or another file.
func write(t *testing.T, mode os.FileMode, elem ...string) string {
	t.Helper()
	path := filepath.Join(elem...)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\nexit 3\n"), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// mm-native is the program of MM_NATIVE only, or is found in PATH.
func TestProgram(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("skipped: scripts are no programs there")
	}
	dir := t.TempDir()
	named, found := write(t, 0o700, dir, "a", "other"), write(t, 0o700, dir, "b", "mm-native")
	t.Setenv("PATH", filepath.Dir(found))
	t.Setenv("MM_NATIVE", named)
	if got, err := native.Program(); err != nil || got != named {
		t.Errorf("%s, %v, want %s", got, err, named)
	}
	for _, bad := range []string{filepath.Join(dir, "none"), dir} {
		t.Setenv("MM_NATIVE", bad)
		if got, err := native.Program(); !errors.Is(err, runtimes.ErrUnavailable) || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s, %v", got, err)
		}
	}
	t.Setenv("MM_NATIVE", "")
	if got, err := native.Program(); err != nil || got != found {
		t.Errorf("%s, %v, want %s", got, err, found)
	}
	t.Setenv("PATH", dir)
	var missing *runtimes.Unavailable
	if got, err := native.Program(); !errors.As(err, &missing) || missing.Hint == "" {
		t.Errorf("%s, %v", got, err)
	}
}

// The newest version is selected; folders without a valid record are ignored.
func TestList(t *testing.T) {
	home := t.TempDir()
	put := func(folder, text string) {
		dir := filepath.Join(home, "engines", "onnxruntime", folder)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "engine.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("1.9.0", `{"name":"onnxruntime","version":"1.9.0"}`)
	put("1.30.0", `{"name":"onnxruntime","version":"1.30.0"}`)
	put("1.40.0", `{"name":"onnxruntime","version":"1.9.0"}`)
	put("1.50.0", `{"name":`)
	put("llamacpp", `{"name":"llamacpp","version":"llamacpp"}`)
	got, err := native.List(home)
	if err != nil || len(got) != 2 || got[0].Version != "1.30.0" || got[1].Version != "1.9.0" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := native.List(t.TempDir()); err != nil || len(got) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

type entry struct {
	name string
	kind byte
	size int64
	text string
}

func archive(t *testing.T, entries ...entry) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, e := range entries {
		if e.size == 0 {
			e.size = int64(len(e.text))
		}
		if e.kind == tar.TypeSymlink {
			e.size = 0
		}
		if err := w.WriteHeader(&tar.Header{Name: e.name, Typeflag: e.kind, Size: e.size, Mode: 0o644, Linkname: "/etc/passwd"}); err != nil {
			t.Fatal(err)
		}
		w.Write([]byte(e.text))
	}
	w.Flush() // an entry may be truncated
	z.Close()
	path := filepath.Join(t.TempDir(), "a.tgz")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// An invalid source leaves nothing behind.
func TestRefusedSources(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped in short mode: an installation for each archive")
	}
	runtimetest.Program(t)
	const lib = "libonnxruntime.so.1"
	plain := write(t, 0o600, t.TempDir(), "x.tgz")
	for name, c := range map[string]struct{ from, want string }{
		"absent":         {filepath.Join(t.TempDir(), "none"), "no such file"},
		"no archive":     {plain, ".tgz"},
		"nothing in it":  {archive(t, entry{"package/README.md", tar.TypeReg, 0, "x"}), "no library"},
		"an empty one":   {t.TempDir(), "no library"},
		"a link":         {archive(t, entry{"package/" + lib, tar.TypeSymlink, 0, ""}), "no library"},
		"cut short":      {archive(t, entry{"package/" + lib, tar.TypeReg, 1 << 20, "x"}), "EOF"},
		"too large":      {archive(t, entry{"package/" + lib, tar.TypeReg, 1 << 40, "x"}), "limit"},
		"twice":          {archive(t, entry{"a/" + lib, tar.TypeReg, 0, "x"}, entry{"b/" + lib, tar.TypeReg, 0, "y"}), "duplicate"},
		"no library":     {archive(t, entry{"package/" + lib, tar.TypeReg, 0, "no ELF"}), "loading onnxruntime"},
		"out of folder":  {archive(t, entry{"../../../../" + lib, tar.TypeReg, 0, "no ELF"}), "loading onnxruntime"},
		"other machines": {archive(t, entry{"bin/win32/x64/" + lib, tar.TypeReg, 0, "x"}, entry{"bin/darwin/arm64/" + lib, tar.TypeReg, 0, "x"}), "no library"},
	} {
		if name == "other machines" && runtime.GOOS != "linux" {
			continue
		}
		home := t.TempDir()
		r, err := native.Install(t.Context(), native.Options{Home: home, Name: native.ONNXRuntime, From: c.from})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v, want %q", name, r, err, c.want)
		}
		filepath.WalkDir(home, func(path string, e os.DirEntry, err error) error {
			if err == nil && !e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
				t.Errorf("%s left %s", name, path)
			}
			return nil
		})
	}
	if _, err := native.Install(t.Context(), native.Options{Home: t.TempDir(), Name: "abacus"}); err == nil {
		t.Error("there is no package of an abacus")
	}
}

// wheel writes a Python package with files.
func wheel(t *testing.T, files map[string]string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "onnxruntime_qnn-2.7.0-cp311-cp311-manylinux_2_35_x86_64.whl")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		if err == nil {
			_, err = w.Write([]byte(files[name]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// Packages are pinned if all of them are of one version, together or alone; a mixed pair is not.
func TestPinnedSets(t *testing.T) {
	newer, older := native.Digests("2.7.0"), native.Digests("2.3.0")
	for _, c := range []struct {
		digests []string
		want    string
	}{
		{newer, "[2.7.0]"}, {older, "[2.3.0]"}, {newer[:1], "[2.7.0]"}, {older[1:], "[2.3.0]"},
		{[]string{newer[0], older[1]}, "[]"}, {[]string{older[0], newer[1]}, "[]"}, {append(newer, "00"), "[]"}, {nil, "[]"},
	} {
		if got := fmt.Sprint(native.SetsOf(c.digests...)); got != c.want {
			t.Errorf("%v are of %s, want %s", c.digests, got, c.want)
		}
	}
}

// A version is selected by a prefix that ends between its numbers.
func TestBegins(t *testing.T) {
	for prefix, want := range map[string]bool{"2.47": true, "2.47.0": true, "2": true, "2.47.0+260601114230": true, "2.4": false, "2.51": false, "2.47.0+2606": false} {
		if got := native.Begins("2.47.0+260601114230", prefix); got != want {
			t.Errorf("%s: %v", prefix, got)
		}
	}
}

// QNN's libraries are extracted from wheels, after the license is accepted, and for one machine.
func TestWheels(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped in short mode: an installation for each archive")
	}
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("skipped: QNN is installed on linux/amd64")
	}
	runtimetest.Program(t)
	both := map[string]string{"onnxruntime_qnn/libQnnHtp.so": "no ELF", "onnxruntime_qnn/libQnnSystem.so": "no ELF", "onnxruntime_qnn/libQnnGpu.so": "not wanted", "../../libc++.so.1": "no ELF"}
	cut, err := os.ReadFile(wheel(t, both))
	if err != nil {
		t.Fatal(err)
	}
	short := filepath.Join(t.TempDir(), "short.whl")
	if err := os.WriteFile(short, cut[:len(cut)-40], 0o600); err != nil {
		t.Fatal(err)
	}
	damaged := filepath.Join(t.TempDir(), "damaged.whl")
	if err := os.WriteFile(damaged, bytes.ReplaceAll(cut, []byte("no ELF"), []byte("no EXF")), 0o600); err != nil {
		t.Fatal(err)
	}
	plain := wheel(t, both)
	for name, c := range map[string]struct {
		from, version, source string
		refuse                bool // the license
		want                  string
	}{
		"not accepted":     {from: plain, refuse: true, want: "must be accepted"},
		"libraries":        {from: plain, want: "loading qnn"},
		"a folder of them": {from: filepath.Dir(plain), want: "loading qnn"},
		"half of them":     {from: wheel(t, map[string]string{"x/libQnnHtp.so": "x"}), want: "missing libQnnSystem.so"},
		"twice":            {from: wheel(t, map[string]string{"a/libQnnHtp.so": "x", "b/libQnnHtp.so": "x"}), want: "duplicate"},
		"cut short":        {from: short, want: "not a wheel"},
		"damaged":          {from: damaged, want: "checksum"},
		"of another kind":  {from: archive(t, entry{"package/libQnnHtp.so", tar.TypeReg, 0, "x"}), want: "want a folder or a .whl file"},
		"another version":  {from: plain, version: "@1.0.0", want: "the known packages are 2.7.0 and 2.3.0"},
		"an artifact":      {from: plain, source: "registry/qnn@sha256:0", want: "forbids redistribution"},
	} {
		home := t.TempDir()
		r, err := native.Install(t.Context(), native.Options{Home: home, Name: "qnn" + c.version, From: c.from, Source: c.source, AcceptLicense: !c.refuse})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v, want %q", name, r, err, c.want)
		}
		if l := (*native.LicenseError)(nil); errors.As(err, &l) != c.refuse || c.refuse && !strings.Contains(l.Text, "Qualcomm") {
			t.Errorf("%s: %v", name, err)
		}
		if all, err := native.List(home); err != nil || len(all) != 0 {
			t.Errorf("%s left %v, %v", name, all, err)
		}
	}
	// What pip brings counts only with the digests that are known.
	dir := t.TempDir()
	script := "#!/bin/sh\nfor last; do [ \"$before\" = --dest ] && cp " + plain + " \"$last\"/; before=$last; done\n"
	if err := os.WriteFile(filepath.Join(dir, "python3"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	if _, err := native.Install(t.Context(), native.Options{Home: t.TempDir(), Name: native.QNN, AcceptLicense: true}); err == nil || !strings.Contains(err.Error(), "digest mismatch") {
		t.Errorf("other bytes: %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := native.Install(t.Context(), native.Options{Home: t.TempDir(), Name: native.QNN, AcceptLicense: true}); !errors.Is(err, runtimes.ErrUnavailable) {
		t.Errorf("no pip: %v", err)
	}
	if err := native.Portable("qnn"); !errors.Is(err, native.ErrBound) || native.Portable("llamacpp") != nil {
		t.Errorf("passing engines on: %v", err)
	}
}

// A package fetched by npm counts only with the pinned digest.
func TestDigest(t *testing.T) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("skipped: npm is played by a script")
	}
	runtimetest.Program(t)
	from := archive(t, entry{"package/bin/napi-v6/linux/x64/libonnxruntime.so.1", tar.TypeReg, 0, "something else"})
	dir := t.TempDir()
	npm := filepath.Join(dir, "npm")
	// npm pack --silent --ignore-scripts --pack-destination DIR SPEC
	if err := os.WriteFile(npm, []byte("#!/bin/sh\n[ \"$3\" = --ignore-scripts ] || exit 9\ncp "+from+" \"$5\"/p.tgz\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	home := t.TempDir()
	_, err := native.Install(t.Context(), native.Options{Home: home, Name: native.ONNXRuntime})
	if err == nil || !strings.Contains(err.Error(), "digest") {
		t.Errorf("other bytes: %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := native.Install(t.Context(), native.Options{Home: home, Name: native.ONNXRuntime}); !errors.Is(err, runtimes.ErrUnavailable) {
		t.Errorf("no npm: %v", err)
	}
}

// Two concurrent installations, and one more, leave one complete engine.
func TestInstallTwice(t *testing.T) {
	from := runtimetest.Libraries(t, native.ONNXRuntime)
	runtimetest.Program(t)
	home := t.TempDir()
	errs := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := native.Install(t.Context(), native.Options{Home: home, Name: native.ONNXRuntime, From: from})
			errs <- err
		}()
	}
	if err := errors.Join(<-errs, <-errs); err != nil {
		t.Fatal(err)
	}
	r, err := native.Install(t.Context(), native.Options{Home: home, Name: native.ONNXRuntime, From: from})
	if err != nil || r.Version == "" || r.Pinned {
		t.Fatalf("%+v, %v", r, err)
	}
	got, err := native.List(home)
	if err != nil || len(got) != 1 || got[0].Dir != r.Dir {
		t.Errorf("%+v, %v", got, err)
	}
}
