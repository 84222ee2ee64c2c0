package runner

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/runtimes/talk"
)

// The inputs of a request are assets named by kind and number, in addition to those that it names;
// a folder of frames is not an asset.
func TestAssets(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "sales.csv")
	if err := os.WriteFile(file, []byte("a,1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	req := Request{
		Inputs: []talk.Part{
			{Type: abi.Text, Text: "hello"}, {Type: abi.Image, Data: []byte("one")}, {Type: abi.Audio, Data: []byte("two")},
			{Type: abi.Video, Path: dir}, {Type: abi.Image, Path: filepath.Join(dir, "none.png")}, {Type: abi.Image, Path: file},
		},
		Assets: []Asset{{Name: "tab0", Path: file}, {Name: "tab1", Data: []byte("three")}},
	}
	assets, closed, err := req.assets()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range assets {
		var b bytes.Buffer
		if _, err := io.Copy(&b, io.NewSectionReader(a.Data, 0, a.Size)); err != nil {
			t.Fatal(err)
		}
		got = append(got, a.Name+"="+strings.TrimSpace(b.String()))
	}
	if want := []string{"img0=one", "audio0=two", "img2=a,1", "tab0=a,1", "tab1=three"}; !slices.Equal(got, want) {
		t.Errorf("assets %v, want %v", got, want)
	}
	if err := closed(); err != nil {
		t.Error(err)
	}
	for name, bad := range map[string][]Asset{
		"an input's name":   {{Name: "img0", Data: []byte("x")}},
		"a name with a way": {{Name: "../x", Data: []byte("x")}},
		"no name":           {{Data: []byte("x")}},
		"a folder":          {{Name: "tab0", Path: dir}},
		"no file":           {{Name: "tab0", Path: filepath.Join(dir, "none")}},
		"a name twice":      {{Name: "tab0", Path: file}, {Name: "tab0", Path: file}},
	} {
		req.Assets = bad
		if _, _, err := req.assets(); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
