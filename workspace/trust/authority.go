package trust

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"time"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry/sign"
)

// Authority accepts certificates below roots as signers of plain folders.
type Authority struct {
	Match      string   `json:"match"`            // pattern of local/NAME
	File       string   `json:"file"`             // PEM of the roots, relative to the trust file
	SHA256     string   `json:"sha256,omitempty"` // of the file; "": any content
	Identities []string `json:"identities,omitempty"`
	Pattern    string   `json:"identity_pattern,omitempty"`
}

// ReadCertificates reads the certificates of a PEM file.
func ReadCertificates(file string) ([]*x509.Certificate, error) {
	data, err := fsx.ReadFile(file, sign.MaxCertificateFile)
	if err != nil {
		return nil, err
	}
	list, err := sign.LoadCertificates(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return list, nil
}

// authority reads the roots of an authority, whose content must be the pinned one.
func (t *File) authority(a Authority) (out sign.FolderAuthority, err error) {
	file := t.path(a.File)
	data, err := fsx.ReadFile(file, sign.MaxCertificateFile)
	if err != nil {
		return out, err
	}
	if got := sha256.Sum256(data); a.SHA256 != "" && a.SHA256 != hex.EncodeToString(got[:]) {
		return out, fmt.Errorf("%s: SHA-256: got %x, want %s", a.File, got, a.SHA256)
	}
	out.Identities, out.Pattern = a.Identities, a.Pattern
	if out.Roots, err = sign.LoadCertificates(data); err != nil {
		return out, fmt.Errorf("%s: %w", a.File, err)
	}
	return out, out.Check()
}

// ForFolder returns whose signatures over the folder of a name a trust file accepts:
// those by its keys and by the certificates of its authorities; with files,
// those by these keys only.
func ForFolder(file, name string, files []string, now time.Time) (sign.FolderTrust, error) {
	out := sign.FolderTrust{Now: now}
	var err error
	if out.Keys, err = Vouching(file, name, files, now); err != nil || len(files) > 0 {
		return out, err
	}
	t, err := Load(file)
	if err != nil {
		return out, err
	}
	var list diag.List
	out.Authorities, list = t.authorities(name)
	return out, list.Err()
}

// authorities returns the authorities for a name, or the faults of all.
func (t *File) authorities(name string) (out []sign.FolderAuthority, list diag.List) {
	for i, a := range t.Authorities {
		fault := func(err error) {
			list.Add(diag.BadTrust, t.pos(fmt.Sprintf("/authorities/%d", i)), err.Error(), "name a PEM file of root certificates, relative to the trust file")
		}
		matches, err := sign.Matches(a.Match, name)
		if err != nil {
			fault(fmt.Errorf("match: %w", err))
			continue
		}
		one, err := t.authority(a)
		if err != nil {
			fault(err)
		} else if matches {
			out = append(out, one)
		}
	}
	return out, list
}
