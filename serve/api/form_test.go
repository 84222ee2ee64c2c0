package api

import (
	"fmt"
	"strings"
	"testing"
)

// form returns a body of n fields and a file.
func form(n int, file string) []byte {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "--x\r\nContent-Disposition: form-data; name=\"f[]\"\r\n\r\n%d\r\n", i)
	}
	if file != "" {
		fmt.Fprintf(&b, "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"../a\"\r\n\r\n%s\r\n", file)
	}
	return []byte(b.String() + "--x--\r\n")
}

func TestParseForm(t *testing.T) {
	fields, data, err := parseForm(form(2, "sound"), "x", "file")
	if err != nil || string(data) != "sound" || fmt.Sprint(fields) != "map[f:[0 1]]" {
		t.Errorf("got %v, %q, %v", fields, data, err)
	}
	if _, _, err := parseForm(form(maxFields-1, "s"), "x", "file"); err != nil {
		t.Errorf("%d fields: %v", maxFields, err)
	}
	if _, _, err := parseForm(form(maxFields, "s"), "x", "file"); err == nil {
		t.Errorf("%d fields are accepted", maxFields+1)
	}
	if _, data, err := parseForm(form(1, ""), "x", "file"); err != nil || data != nil {
		t.Errorf("no file: %q, %v", data, err)
	}
	two := strings.Replace(string(form(0, "a")), "--x--", string(form(0, "b")), 1)
	if _, _, err := parseForm([]byte(two), "x", "file"); err == nil || !strings.Contains(err.Error(), "got two") {
		t.Errorf("two files: %v", err)
	}
	if _, _, err := parseForm([]byte(strings.TrimSuffix(string(form(0, "s")), "--x--\r\n")), "x", "file"); err == nil {
		t.Error("a cut form is accepted")
	}
}

// FuzzParseForm parses any body: fields or an error, never a panic.
func FuzzParseForm(f *testing.F) {
	f.Add(form(2, "sound"), "x")
	f.Add([]byte("--x\r\nContent-Disposition: form-data; name=\"a\"\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n=\r\n--x--"), "x")
	f.Fuzz(func(t *testing.T, body []byte, boundary string) {
		if boundary != "" {
			_, _, _ = parseForm(body, boundary, "file")
		}
	})
}

// A request for vectors has one text or more, up to the limit.
func TestMaxTexts(t *testing.T) {
	for n, ok := range map[int]bool{0: false, 1: true, maxTexts: true, maxTexts + 1: false} {
		if err := checkTexts("input", n); (err == nil) != ok {
			t.Errorf("%d texts: %v", n, err)
		}
	}
}
