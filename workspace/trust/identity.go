package trust

import (
	"fmt"
	"maps"
	"slices"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/registry/sigstore"
)

// Root names a trusted root of Sigstore: the authorities and logs that confirm identities.
type Root struct {
	File   string `json:"file"`             // trusted_root.json, relative to the trust file
	SHA256 string `json:"sha256,omitempty"` // of the file; "": any content
}

// Identity signs with certificates instead of a key.
type Identity struct {
	Root       string            `json:"root"`
	Issuer     string            `json:"issuer"`
	Subject    string            `json:"subject,omitempty"`
	Pattern    string            `json:"subject_pattern,omitempty"`
	Extensions map[string]string `json:"extensions,omitempty"`
	NotAfter   string            `json:"not_after,omitempty"`
	Revoked    bool              `json:"revoked,omitempty"`
}

// addIdentities adds the roots and identities to a policy and returns their faults.
func (t *File) addIdentities(p *sign.Policy) (list diag.List) {
	p.Roots = map[string]*sigstore.Root{}
	for _, name := range slices.Sorted(maps.Keys(t.Roots)) {
		root, err := t.root(name)
		if err != nil {
			list.Add(diag.BadTrust, t.pos("/roots/"+name), err.Error(), "name a trusted_root.json, relative to the trust file")
			continue
		}
		p.Roots[name] = root
	}
	p.Identities = map[string]sign.TrustedIdentity{}
	for _, name := range slices.Sorted(maps.Keys(t.Identities)) {
		i := t.Identities[name]
		p.Identities[name] = sign.TrustedIdentity{
			Root: i.Root, Issuer: i.Issuer, Subject: i.Subject, Pattern: i.Pattern, Extensions: i.Extensions,
			NotAfter: t.end("/identities/"+name, i.NotAfter, &list), Revoked: i.Revoked,
		}
	}
	return list
}

// rootData reads the file of a trusted root.
func (t *File) rootData(name string) ([]byte, error) {
	return fsx.ReadFile(t.path(t.Roots[name].File), sigstore.MaxRoot)
}

// root reads a trusted root, whose content must be the pinned one.
func (t *File) root(name string) (*sigstore.Root, error) {
	data, err := t.rootData(name)
	if err != nil {
		return nil, err
	}
	root, err := sigstore.ParseRoot(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.Roots[name].File, err)
	}
	if want := t.Roots[name].SHA256; want != "" && want != root.Digest {
		return nil, fmt.Errorf("%s: SHA-256: got %s, want %s", t.Roots[name].File, root.Digest, want)
	}
	return root, nil
}
