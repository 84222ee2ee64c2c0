package repotest_test

import (
	"bytes"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// mm links nothing that is C's: no package of its graph has cgo files, whether
// cgo is on or off, and none loads libraries.
func TestNoC(t *testing.T) {
	list := func(cgo string) string {
		cmd := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{range .CgoFiles}}{{$.ImportPath}}/{{.}} {{end}}{{.ImportPath}}\n{{end}}", "../../cmd/mm")
		cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		return string(out)
	}
	for _, cgo := range []string{"0", "1"} {
		for line := range strings.Lines(list(cgo)) {
			if strings.Contains(line, " ") || strings.Contains(line, "purego") || strings.Contains(line, "/mm-native") || strings.Contains(line, "nats-server") {
				t.Errorf("CGO_ENABLED=%s: mm links %s", cgo, strings.TrimSpace(line))
			}
		}
	}
}

// magic is how contexts of the HTP begin.
var magic = []byte{0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 1}

// ofVendor says what makes a file one of Qualcomm's, or one that its compiler
// made; "" of any other.
func ofVendor(name string, data []byte) string {
	base := strings.ToLower(path.Base(name))
	for _, pattern := range []string{"libqnn*", "qnn*.dll", "libgenie*", "libsnpe*", "libhtpprepare*", "*skel.so", "*stub.so", "libonnxruntime_providers_qnn*", "qualcomm_license*"} {
		if ok, _ := path.Match(pattern, base); ok {
			return "is called as a library of Qualcomm's"
		}
	}
	const hexagon = 164 // ELF's number of the machine
	if len(data) > 20 && string(data[:4]) == "\x7fELF" && data[18] == hexagon {
		return "is a program for Qualcomm's DSP"
	}
	if bytes.Contains(data, magic) {
		return "holds a context for the HTP"
	}
	return ""
}

// Nothing of Qualcomm's is in the repository, and nothing that its compiler made.
func TestNoVendorFiles(t *testing.T) {
	root := filepath.Join("..", "..")
	out, err := exec.Command("git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		t.Skipf("skipped: git does not list the files: %v", err)
	}
	names := strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
	if len(names) < 100 {
		t.Fatalf("git lists %d files", len(names))
	}
	for _, name := range names {
		at := filepath.Join(root, filepath.FromSlash(name))
		info, err := os.Lstat(at)
		if err != nil || !info.Mode().IsRegular() {
			continue // removed and not committed yet, or a link
		}
		data, err := os.ReadFile(at)
		if err != nil {
			t.Fatal(err)
		}
		if why := ofVendor(name, data); why != "" {
			t.Errorf("%s %s", name, why)
		}
	}
	t.Logf("%d files looked at", len(names))
}

// The rule sees what it is for, and nothing else.
func TestOfVendor(t *testing.T) {
	dsp := append([]byte("\x7fELF"), make([]byte, 30)...)
	dsp[18] = 164
	for _, c := range []struct {
		name string
		data []byte
		is   bool
	}{
		{"a/libQnnHtp.so", nil, true}, {"libQnnHtpV79Skel.so", nil, true}, {"x/libcdsprpcStub.so", nil, true}, {"QnnHtp.dll", nil, true}, {"Qualcomm_LICENSE.pdf", nil, true},
		{"notes.txt", dsp, true}, {"model.tflite", append([]byte("TFL3 and more"), magic...), true}, {"c.bin", magic, true},
		{"cmd/mm/qnn.go", []byte("package main"), false}, {"qnn_test.go", nil, false}, {"docs/QNN.md", []byte("libQnnHtp.so"), false}, {"c.bin", magic[1:], false},
	} {
		if why := ofVendor(c.name, c.data); (why != "") != c.is {
			t.Errorf("%s: %q", c.name, why)
		}
	}
}
