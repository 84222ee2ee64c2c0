// Package trust reads trust.yaml: which keys may release which repositories, and the
// project files that the user accepted.
package trust

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/schemas"
	"mm-abi.org/mm/workspace/home"
)

// File is a trust file: it lists which keys may release which artifacts.
type File struct {
	Version  int               `json:"version"`
	Strict   bool              `json:"strict,omitempty"`
	Default  string            `json:"default,omitempty"`
	Rules    []Rule            `json:"rules,omitempty"`
	Keys     map[string]Key    `json:"keys,omitempty"`
	Mirrors  map[string]string `json:"mirrors,omitempty"` // repository → name of the mirrored artifact
	Channels []Channel         `json:"channels,omitempty"`
	Evals    []Eval            `json:"evals,omitempty"`

	Roots      map[string]Root     `json:"roots,omitempty"`
	Identities map[string]Identity `json:"identities,omitempty"`

	Authorities []Authority `json:"authorities,omitempty"` // of the signers of plain folders
	// Grants are permissions of skills. Those of a project's file do not count.
	Grants []modules.Grant `json:"grants,omitempty"`

	doc  *schemas.Document
	file string
	sum  string // of the file and of the keys and roots it names; empty: no file
}

// Rule allows keys and identities to sign for the repositories of a pattern.
type Rule struct {
	Match     string   `json:"match"`
	Keys      []string `json:"keys"`
	Threshold int      `json:"threshold,omitempty"`
}

// Key is a public key, inline or in a separate file.
type Key struct {
	File     string `json:"file,omitempty"` // relative to the trust file
	PEM      string `json:"pem,omitempty"`
	NotAfter string `json:"not_after,omitempty"`
	Revoked  bool   `json:"revoked,omitempty"`
}

const trustHeader = "# Which keys may release what. `mm trust add` and `mm trust rm` write this file anew.\n"

// MaxKey bounds the file of a key, in bytes.
const MaxKey = 64 << 10

// Load reads a trust file. A missing one trusts no key.
func Load(file string) (*File, error) {
	t := &File{Version: 1, file: file}
	if !home.Exists(file) {
		return t, nil
	}
	data, list := schemas.ReadFile(file, diag.Unreadable)
	if err := list.Err(); err != nil {
		return nil, err
	}
	doc, list := schemas.Load(schemas.Trust, file, data)
	if err := list.Err(); err != nil {
		return nil, err
	}
	t.doc = doc
	if err := doc.Decode(t); err != nil {
		return nil, err
	}
	t.sum = t.fingerprint(data)
	return t, nil
}

// Path returns the path of the trust file.
func (t *File) Path() string { return t.file }

// trustKeys returns the trust file for the keys of --key.
func trustKeys(files []string) (*File, error) {
	t := &File{Keys: map[string]Key{}, file: "--key"}
	var names []string
	for _, file := range files {
		path, err := filepath.Abs(file)
		if err != nil {
			return nil, err
		}
		t.Keys[file] = Key{File: path}
		names = append(names, file)
	}
	t.Rules = []Rule{{Match: "**", Keys: names}}
	return t, nil
}

// pem reads the public key called name.
func (t *File) pem(name string) ([]byte, error) {
	if file := t.keyFile(name); file != "" {
		return fsx.ReadFile(file, MaxKey)
	}
	return []byte(t.Keys[name].PEM), nil
}

// keyFile returns the path of the file of the key called name; "" if the trust file
// contains the key.
func (t *File) keyFile(name string) string {
	return t.path(t.Keys[name].File)
}

// path returns the path of a file that the trust file names; "" for none.
func (t *File) path(file string) string {
	if file != "" && !filepath.IsAbs(file) {
		file = filepath.Join(filepath.Dir(t.file), filepath.FromSlash(file))
	}
	return file
}

// Policy converts the file to a policy of registry/sign. Faults are
// diagnostics at the key or rule concerned.
func (t *File) Policy() (sign.Policy, error) {
	p := sign.Policy{Strict: t.Strict, Default: sign.Action(t.Default), Keys: map[string]sign.TrustedKey{}}
	var list diag.List
	for _, r := range t.Rules {
		p.Rules = append(p.Rules, sign.Rule{Match: r.Match, Keys: r.Keys, Threshold: r.Threshold})
	}
	list = append(list, t.addIdentities(&p)...)
	_, faults := t.authorities("")
	list = append(list, faults...)
	for _, name := range slices.Sorted(maps.Keys(t.Keys)) {
		k := t.Keys[name]
		pem, err := t.pem(name)
		if err != nil {
			list.Add(diag.BadTrust, t.pos("/keys/"+name), err.Error(), "name the public key's file, relative to the trust file")
			continue
		}
		p.Keys[name] = sign.TrustedKey{PEM: pem, NotAfter: t.end("/keys/"+name, k.NotAfter, &list), Revoked: k.Revoked}
	}
	if list.Failed() {
		return p, list.Err()
	}
	if err := t.faults(p.Validate()); err != nil || t.doc == nil {
		return p, err
	}
	return p, errors.Join(t.checkChannels(), t.checkEvals())
}

// end returns the last instant of a not_after; zero for none. It adds a fault at ptr to list.
func (t *File) end(ptr, notAfter string, list *diag.List) time.Time {
	if notAfter == "" {
		return time.Time{}
	}
	when, err := schemas.ParseWhen(notAfter)
	if err != nil {
		list.Add(diag.BadTrust, t.pos(ptr), err.Error(), "")
	}
	return when
}

// faults adds the positions in the file to the policy's faults.
func (t *File) faults(err error) error {
	if err == nil {
		return nil
	}
	var list diag.List
	var each interface{ Unwrap() []error }
	all := []error{err}
	if errors.As(err, &each) {
		all = each.Unwrap()
	}
	for _, e := range all {
		var pe *sign.PolicyError
		if errors.As(e, &pe) {
			list.Add(diag.BadTrust, t.pos(pointerOf(pe.Path)), pe.Error(), "")
		} else {
			list.Add(diag.BadTrust, diag.Pos{File: t.file}, e.Error(), "")
		}
	}
	return list.Err()
}

// pointerOf converts rules[2].match to /rules/2/match.
func pointerOf(path string) string {
	return "/" + strings.NewReplacer("[", "/", "]", "", ".", "/").Replace(path)
}

// Granted returns the grants of the file. A path must be absolute: a relative
// one would depend on the working folder.
func (t *File) Granted() ([]modules.Grant, error) {
	var list diag.List
	for i, g := range t.Grants {
		for _, path := range g.Allow.Read {
			if !filepath.IsAbs(path) || filepath.Clean(path) != path {
				list.Add(diag.BadTrust, t.pos(fmt.Sprintf("/grants/%d/allow/read", i)), fmt.Sprintf("%q is not a clean absolute path", path), "")
			}
		}
	}
	return t.Grants, list.Err()
}

func (t *File) pos(ptr string) diag.Pos {
	if t.doc == nil {
		return diag.Pos{File: t.file}
	}
	return t.doc.Pos(ptr)
}

// Change reads, changes and writes a trust file under a lock. It refuses to
// write an invalid policy.
func Change(ctx context.Context, file string, change func(*File) error) error {
	dir, err := fsx.Create(filepath.Dir(file), 0o755, fsx.Options{})
	if err != nil {
		return err
	}
	defer dir.Close()
	lock, err := dir.Lock(ctx, "."+filepath.Base(file)+".lock")
	if err != nil {
		return err
	}
	defer lock.Unlock()
	t, err := Load(file)
	if err != nil {
		return err
	}
	if err := change(t); err != nil {
		return err
	}
	if _, err := t.Policy(); err != nil {
		return err
	}
	data, err := schemas.Encode(t)
	if err != nil {
		return err
	}
	return dir.WriteFile(filepath.Base(file), append([]byte(trustHeader), data...), 0o644)
}

// Add trusts key under name for every pattern, joining a rule that is there.
func (t *File) Add(name string, key Key, match []string) error {
	if old, ok := t.Keys[name]; ok && old.PEM != key.PEM {
		return diag.Hinted(fmt.Errorf("%s has another key called %q", t.file, name), "choose a name with --name, or mm trust rm "+name)
	}
	if t.Keys == nil {
		t.Keys = map[string]Key{}
	}
	t.Keys[name] = key
	for _, m := range match {
		i := slices.IndexFunc(t.Rules, func(r Rule) bool { return r.Match == m })
		if i < 0 {
			t.Rules = append(t.Rules, Rule{Match: m, Keys: []string{name}})
		} else if !slices.Contains(t.Rules[i].Keys, name) {
			t.Rules[i].Keys = append(t.Rules[i].Keys, name)
		}
	}
	return nil
}

// Remove stops trusting the key or identity called name, and drops rules that it leaves
// without a key.
func (t *File) Remove(name string) error {
	_, isKey := t.Keys[name]
	if _, isIdentity := t.Identities[name]; !isKey && !isIdentity {
		return fmt.Errorf("%s: unknown key %q: %w", t.file, name, fs.ErrNotExist)
	}
	delete(t.Keys, name)
	delete(t.Identities, name)
	t.Rules = slices.DeleteFunc(t.Rules, func(r Rule) bool { return len(r.Keys) == 1 && r.Keys[0] == name })
	for i := range t.Rules {
		t.Rules[i].Keys = slices.DeleteFunc(t.Rules[i].Keys, func(k string) bool { return k == name })
	}
	return nil
}

// Write writes a row for each key of each rule.
func (t *File) Write(to io.Writer) error {
	policy, err := t.Policy()
	if err != nil {
		return err
	}
	var rows [][]string
	for _, r := range t.Rules {
		for _, name := range r.Keys {
			k := t.Keys[name]
			id, note := "?", k.NotAfter
			if pub, err := sign.LoadPublic(policy.Keys[name].PEM); err == nil {
				id = pub.KeyID()[:12]
			}
			if i, ok := t.Identities[name]; ok {
				id, note, k.Revoked = i.Subject+i.Pattern+" by "+i.Issuer, i.NotAfter, i.Revoked
			}
			if k.Revoked {
				note = "revoked"
			}
			rows = append(rows, []string{r.Match, fmt.Sprint(max(r.Threshold, 1)), name, id, note})
		}
	}
	return diag.Table(to, []string{"REPOSITORIES", "OF", "KEY", "ID", "UNTIL"}, rows)
}
