package bom

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"mm-abi.org/mm/internal/spdx"
	"mm-abi.org/mm/modules"
)

// The documents of a build.
const (
	LicenseFile = "LICENSE"
	NoticeFile  = "NOTICE"
)

// MaxText bounds the text of one file in bytes.
const MaxText = 1 << 20

// maxDocument bounds each document of a build in bytes.
const maxDocument = 4 << 20

// texts are licenses whose text is the same for every work.
//
//go:embed texts
var texts embed.FS

// Part is a module with its license and notice files.
type Part struct {
	Name, Version string
	License       string // SPDX expression. Empty: unknown
	Source        string
	Digest        string // of the module's manifest
	Files         []LegalFile
}

// LegalFile is a license text or a notice of a module, by its path in the module.
type LegalFile struct {
	Path   string `json:"path"`
	Digest string `json:"digest"`
	Text   []byte `json:"-"`
}

// Text is the text of a license identifier.
type Text struct {
	ID     string `json:"id"`
	From   string `json:"from"`   // path of a module's file, or SPDX. Empty: missing
	Digest string `json:"digest"` // of the text
}

// String returns NAME VERSION.
func (p Part) String() string { return p.Name + " " + p.Version }

// standard returns the text of a license that is the same for every work.
func standard(id string) (text []byte, ok bool) {
	text, err := texts.ReadFile("texts/" + id + ".txt")
	return text, err == nil
}

// Standard returns the text of an expression of one license that is the same for every
// work.
func Standard(expression string) ([]byte, bool) {
	e, err := spdx.Parse(expression)
	if err != nil || len(e.IDs) != 1 || e.String() != e.IDs[0] {
		return nil, false
	}
	return standard(e.IDs[0])
}

// Texts returns the text of each license of a module. LICENSES/ID.txt is that of ID;
// another license file of the module is that of all others. A license whose text is the
// same for every work needs none.
func (p Part) Texts() []Text {
	e, err := spdx.Parse(p.License)
	if err != nil {
		e.IDs = []string{p.License}
	}
	var out []Text
	for _, id := range e.IDs {
		out = append(out, p.text(id))
	}
	return out
}

func (p Part) text(id string) Text {
	t := Text{ID: id}
	for _, f := range p.Files {
		switch {
		case f.Path == "LICENSES/"+id+".txt":
			return Text{id, f.Path, f.Digest}
		case !modules.IsNotice(f.Path) && !strings.Contains(f.Path, "/") && t.From == "":
			t.From, t.Digest = f.Path, f.Digest
		}
	}
	if text, ok := standard(id); t.From == "" && ok {
		return Text{id, "SPDX", digestOf(text)}
	}
	return t
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Missing returns the license identifiers of a module without a text.
func (p Part) Missing() (ids []string) {
	for _, t := range p.Texts() {
		if t.From == "" && t.ID != "" {
			ids = append(ids, t.ID)
		}
	}
	return ids
}

// check reports a file that is not UTF-8 text, or too large.
func (p Part) check() error {
	for _, f := range p.Files {
		if len(f.Text) > MaxText {
			return fmt.Errorf("%s: %s: got %d bytes, limit %d", p, f.Path, len(f.Text), MaxText)
		}
		if !utf8.Valid(f.Text) || strings.ContainsRune(string(f.Text), 0) {
			return fmt.Errorf("%s: %s: want UTF-8 text", p, f.Path)
		}
	}
	return nil
}

// source is a text with the modules that it belongs to.
type source struct {
	title  string
	text   []byte
	owners []string
}

// Documents returns LICENSE and NOTICE of a build of parts, in their order. LICENSE is nil
// if no text is known.
func Documents(name, expression string, parts []Part) (license, notice []byte, err error) {
	var all []*source
	byDigest := map[string]*source{}
	add := func(title string, text []byte, owner string) {
		key := digestOf(text)
		if byDigest[key] == nil {
			byDigest[key] = &source{title: title, text: text}
			all = append(all, byDigest[key])
		}
		if s := byDigest[key]; !slices.Contains(s.owners, owner) {
			s.owners = append(s.owners, owner)
		}
	}
	for _, p := range parts {
		if err := p.check(); err != nil {
			return nil, nil, err
		}
		for _, f := range p.Files {
			if !modules.IsNotice(f.Path) {
				add(p.Name+"/"+f.Path, f.Text, p.String())
			}
		}
		for _, t := range p.Texts() {
			if text, ok := standard(t.ID); ok && t.From == "SPDX" {
				add(t.ID, text, p.String())
			}
		}
	}
	if all != nil {
		license = licenseText(name, expression, all)
	}
	notice = noticeText(name, expression, parts)
	for what, text := range map[string][]byte{LicenseFile: license, NoticeFile: notice} {
		if len(text) > maxDocument {
			return nil, nil, fmt.Errorf("%s: got %d bytes, limit %d", what, len(text), maxDocument)
		}
	}
	return license, notice, nil
}

// rule separates texts.
var rule = strings.Repeat("=", 80)

func licenseText(name, expression string, all []*source) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "Licenses of %s: %s\n", name, known(expression))
	for _, s := range all {
		fmt.Fprintf(&b, "\n%s\n%s, for %s\n%s\n\n%s\n", rule, s.title, strings.Join(s.owners, ", "), rule, strings.Trim(unix(s.text), "\n"))
	}
	return []byte(b.String())
}

func noticeText(name, expression string, parts []Part) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "Modules of %s: %s\n", name, known(expression))
	for _, p := range parts {
		fmt.Fprintf(&b, "\n%s\n  license: %s\n", p, known(p.License))
		for _, t := range p.Texts() {
			switch {
			case t.From == "":
				fmt.Fprintf(&b, "  text of %s: missing\n", known(t.ID))
			default:
				fmt.Fprintf(&b, "  text of %s: %s %s\n", t.ID, t.From, t.Digest)
			}
		}
		fmt.Fprintf(&b, "  source: %s\n  module: %s\n", known(p.Source), p.Digest)
		for _, f := range p.Files {
			if modules.IsNotice(f.Path) {
				fmt.Fprintf(&b, "\n%s of %s:\n\n%s\n", f.Path, p.Name, strings.Trim(unix(f.Text), "\n"))
			}
		}
	}
	return []byte(b.String())
}

func unix(text []byte) string { return strings.ReplaceAll(string(text), "\r\n", "\n") }

func known(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
