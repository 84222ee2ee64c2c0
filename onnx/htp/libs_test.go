package htp_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mm-abi.org/mm/onnx/htp"
)

func write(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	for name, data := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLook(t *testing.T) {
	const build = "v2.47.0.260601114230"
	for name, tc := range map[string]struct {
		files map[string][]byte
		want  htp.Libraries
	}{
		"an SDK": {map[string][]byte{
			"aarch64-android/libQnnHtp.so":                   []byte("\x7fELF" + build + "\x00more " + build),
			"aarch64-android/libQnnSystem.so":                nil,
			"aarch64-android/libQnnHtpV79Stub.so":            nil,
			"hexagon-v79/unsigned/libQnnHtpV79Skel.so":       nil,
			"hexagon-v75/unsigned/libQnnHtpV75Skel.so":       nil,
			"aarch64-android/libQnnHtpV79CalculatorStub.so":  nil,
			"hexagon-v79/unsigned/libQnnHtpV79.so":           nil,
			"aarch64-android/libQnnHtpNetRunExtensions.so.1": nil,
		}, htp.Libraries{HTP: true, System: true, Stubs: []htp.Arch{79}, Skels: []htp.Arch{75, 79}, Build: build, Builds: 1}},
		"Windows":        {map[string][]byte{"QnnHtp.dll": []byte(build), "QnnHtpV73Stub.dll": nil}, htp.Libraries{HTP: true, Stubs: []htp.Arch{73}, Build: build, Builds: 1}},
		"two builds":     {map[string][]byte{"libQnnHtp.so": []byte(build + " v2.46.0.260424000000")}, htp.Libraries{HTP: true, Builds: 2}},
		"a text":         {map[string][]byte{"libQnnHtp.so": []byte("no library")}, htp.Libraries{HTP: true}},
		"across a piece": {map[string][]byte{"libQnnHtp.so": append(bytes.Repeat([]byte{1}, 1<<20+64-7), build...)}, htp.Libraries{HTP: true, Build: build, Builds: 1}},
		"nothing":        {map[string][]byte{"other.so": nil}, htp.Libraries{}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, tc.files)
			got, err := htp.FindLibraries(dir)
			if err != nil {
				t.Fatal(err)
			}
			tc.want.Dir = dir
			if d := cmp.Diff(tc.want, got, cmpopts.IgnoreUnexported(htp.Libraries{})); d != "" {
				t.Error(d)
			}
		})
	}
	if _, err := htp.FindLibraries(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a missing folder")
	}
	file := filepath.Join(t.TempDir(), "file")
	write(t, filepath.Dir(file), map[string][]byte{"file": nil})
	if _, err := htp.FindLibraries(file); err == nil {
		t.Error("a file is not a folder")
	}
}
