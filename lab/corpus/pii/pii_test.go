package pii

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestFind(t *testing.T) {
	d := New(nil, DefaultScore)
	for text, want := range map[string]string{
		"write to ann.b+c@mail.example.co.uk, please":                    "write to <EMAIL>, please",
		"<x_y@example.com>.":                                             "<<EMAIL>>.",
		"a@b and logo@2x.png and x@y..com and @c.de":                     "",
		"(212) 555-0123 or +49 30 1234567":                               "<PHONE> or <PHONE>",
		"call 020 7946 0958 today":                                       "call <PHONE> today",
		"212-555-0123-4 and 112-555-0123":                                "",
		"invoice 212-555-0123":                                           "",
		"phone 2125550123":                                               "phone <PHONE>",
		"number 1234567890":                                              "",
		"4111 1111 1111 1111, 4111-1111-1111-1111":                       "<CARD>, <CARD>",
		"4111111111111112 and 378282246310005":                           "4111111111111112 and <CARD>",
		"DE89 3704 0044 0532 0130 00 and GB82WEST12345698765432":         "<IBAN> and <IBAN>",
		"DE89 3704 0044 0532 0130 01":                                    "",
		"SSN 078-05-1120":                                                "SSN <SSN>",
		"000-12-3456 666-12-3456 912-12-3456 123-00-4567":                "",
		"from 192.168.1.17.":                                             "from <IPV4>.",
		"version 10.20.30.40, 256.1.1.1, 1.2.3.4.5":                      "",
		"host 1.2.3.4":                                                   "host <IPV4>",
		"2001:db8:85a3::8a2e:370:7334 is up":                             "<IPV6> is up",
		"12:34:56, aa:bb:cc:dd:ee:ff, std::vector, ::1":                  "",
		"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa":                             "<BITCOIN>",
		"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb":                             "",
		"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4":                     "<BITCOIN>",
		"bc1p5cyxnuxmeuwuvkwfem96lqzszd02n6xdcjrs20cac6yqjjwudpxqkedrcr": "<BITCOIN>",
		"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t5":                     "",
		"grüße an ä@example.com":                                         "",
	} {
		if want == "" {
			want = text
		}
		if got := Replace(text, d.Find(text)); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func TestKindsAndScore(t *testing.T) {
	const text = "SSN 078-05-1120, a@example.com, 300-20-1000"
	if got := New([]Kind{SSN}, 0.8).Find(text); len(got) != 1 || got[0].Kind != SSN || got[0].Start != 4 || got[0].Score != 0.85 {
		t.Errorf("%+v", got)
	}
	if got := New(nil, 0.1).Find("number 020 7946 0958 of 4111 1111 1111 1111"); len(got) != 2 {
		t.Errorf("%+v", got)
	}
}

func TestLimits(t *testing.T) {
	d := New(nil, DefaultScore)
	for text, want := range map[string]int{
		strings.Repeat("a", maxLocal) + "@example.com":                                     1,
		"a@" + strings.Repeat("b.", 126) + "com":                                           1,
		"a@" + strings.Repeat("b.", maxDomain/2+1) + "com":                                 0,
		"a@" + strings.Repeat("b", 64) + ".com":                                            0,
		strings.Repeat("@", 1000) + strings.Repeat(":", 1000) + strings.Repeat("1.", 1000): 0,
		"2001:0db8:85a3:0000:0000:8a2e:0370:7334":                                          1,
		strings.Repeat("1:", maxIPv6) + "1":                                                0,
		"tel 1" + strings.Repeat(" ", maxNumber) + "2":                                     0,
		"bc1" + strings.Repeat("q", maxAddress):                                            0,
		"DE89" + strings.Repeat(" ", maxIBAN):                                              0,
	} {
		if got := d.Find(text); len(got) != want {
			t.Errorf("%.60s: %+v, want %d", text, got, want)
		}
	}
}

func TestLines(t *testing.T) {
	var out bytes.Buffer
	r, err := New(nil, DefaultScore).Lines(&out, strings.NewReader("é a@example.com\n\nnone"), true)
	if err != nil || r.Lines != 3 || r.Found[Email] != 1 {
		t.Fatal(r, err)
	}
	if d := cmp.Diff(`[{"kind":"email","start":2,"end":15,"score":1}]`+"\n[]\n[]\n", out.String()); d != "" {
		t.Error(d)
	}
	for text, ok := range map[string]bool{strings.Repeat("a", maxLine): true, strings.Repeat("a", maxLine+1): false, "\xff": false} {
		if _, err := New(nil, DefaultScore).Lines(&bytes.Buffer{}, strings.NewReader(text+"\n"), false); (err == nil) != ok {
			t.Errorf("%d bytes: %v", len(text), err)
		}
	}
}

// Findings lie in order in the text, and replaced text has none of the kinds with
// a checksum.
func FuzzFind(f *testing.F) {
	for _, s := range []string{"a@b.de 4111 1111 1111 1111", "+1 (212) 555-0123", "DE89 3704 0044 0532 0130 00", "2001:db8::1:2:3", "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa", "12.3.4.5-6", "((((((1", "::::"} {
		f.Add(s)
	}
	d := New(nil, 0.1)
	f.Fuzz(func(t *testing.T, s string) {
		at := 0
		found := d.Find(s)
		for _, one := range found {
			if one.Start < at || one.End <= one.Start || one.End > len(s) || one.Score < 0.1 || one.Score > 1 {
				t.Fatalf("%q: %+v", s, found)
			}
			at = one.End
		}
		if got := Replace(s, found); utf8.ValidString(s) && !utf8.ValidString(got) {
			t.Fatalf("%q: %q", s, got)
		}
	})
}

func BenchmarkFind(b *testing.B) {
	text := strings.Repeat("The quick brown fox of 1,200 words jumped at 10:30 over bob's fence. ", 100) + "a@example.com"
	d := New(nil, DefaultScore)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if len(d.Find(text)) != 1 {
			b.Fatal(fmt.Sprint(d.Find(text)))
		}
	}
}
