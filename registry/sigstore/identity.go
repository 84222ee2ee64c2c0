package sigstore

import (
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/crypto/cryptobyte"
	cryptoasn1 "golang.org/x/crypto/cryptobyte/asn1"
)

// Identity is who signed, as a certificate states it.
type Identity struct {
	Issuer     string            // of the token: URL of the OpenID provider
	Subject    string            // address, URI or user name
	Extensions map[string]string // by the names of [ExtensionNames]
}

// fulcioArc is the arc of the extensions of Fulcio's certificates, 1.3.6.1.4.1.57264.1.
var fulcioArc = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1}

// Numbers of extensions below fulcioArc.
const (
	extensionIssuerV1  = 1
	extensionOtherName = 7
	extensionIssuer    = 8
)

// extensionName returns the name of an extension below fulcioArc by which trust files
// constrain it, and "" for others. Numbers 2 to 6 hold bare text, later ones DER.
func extensionName(number int) string {
	names := [...]string{
		2: "github_workflow_trigger", 3: "github_workflow_sha", 4: "github_workflow_name",
		5: "github_workflow_repository", 6: "github_workflow_ref",
		9: "build_signer_uri", 10: "build_signer_digest", 11: "runner_environment",
		12: "source_repository_uri", 13: "source_repository_digest", 14: "source_repository_ref",
		15: "source_repository_identifier", 16: "source_repository_owner_uri",
		17: "source_repository_owner_identifier", 18: "build_config_uri", 19: "build_config_digest",
		20: "build_trigger", 21: "run_invocation_uri", 22: "source_repository_visibility_at_signing",
	}
	if number < 0 || number >= len(names) {
		return ""
	}
	return names[number]
}

// ExtensionNames lists the extensions that can be constrained.
func ExtensionNames() []string {
	names := map[string]bool{}
	for i := range 32 {
		names[extensionName(i)] = true
	}
	delete(names, "")
	return slices.Sorted(maps.Keys(names))
}

// Claim returns the identity that the certificate states. It counts only once
// [Bundle.Verify] succeeds.
func (b *Bundle) Claim() (Identity, error) {
	if b.leaf == nil {
		return Identity{}, fault(CheckIdentity, "signed with a key, not with a certificate")
	}
	id := Identity{Extensions: map[string]string{}}
	for _, e := range b.leaf.Extensions {
		if len(e.Id) != len(fulcioArc)+1 || !e.Id[:len(fulcioArc)].Equal(fulcioArc) {
			continue
		}
		number := e.Id[len(fulcioArc)]
		value := string(e.Value)
		if number >= extensionIssuer {
			if rest, err := asn1.UnmarshalWithParams(e.Value, &value, "utf8"); err != nil || len(rest) > 0 {
				return Identity{}, fault(CheckIdentity, "extension %s is not one UTF8String", e.Id)
			}
		}
		switch name := extensionName(number); {
		case number == extensionIssuer, number == extensionIssuerV1:
			if id.Issuer != "" && id.Issuer != value {
				return Identity{}, fault(CheckIdentity, "two issuers, %q and %q", clip(id.Issuer), clip(value))
			}
			id.Issuer = value
		case name != "":
			id.Extensions[name] = value
		}
	}
	if id.Issuer == "" {
		return Identity{}, fault(CheckIdentity, "the certificate states no issuer")
	}
	var err error
	if id.Subject, err = subject(b.leaf); err != nil {
		return Identity{}, fault(CheckIdentity, "%v", err)
	}
	return id, nil
}

// subject returns the one alternative name of a certificate.
func subject(c *x509.Certificate) (string, error) {
	names := slices.Clone(c.EmailAddresses)
	for _, u := range c.URIs {
		names = append(names, u.String())
	}
	names = append(names, c.DNSNames...)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	for _, e := range c.Extensions {
		if e.Id.Equal(sanOID) {
			other, err := otherNames(e.Value)
			if err != nil {
				return "", err
			}
			names = append(names, other...)
		}
	}
	if len(names) != 1 || names[0] == "" {
		return "", fmt.Errorf("the certificate states %d names, not 1", len(names))
	}
	return names[0], nil
}

// sanOID is that of subject alternative names.
var sanOID = asn1.ObjectIdentifier{2, 5, 29, 17}

// otherNames returns the user names of an extension of alternative names; crypto/x509 does
// not read them.
func otherNames(der []byte) (list []string, err error) {
	in := cryptobyte.String(der)
	var names cryptobyte.String
	if !in.ReadASN1(&names, cryptoasn1.SEQUENCE) || !in.Empty() {
		return nil, errors.New("alternative names: not a sequence")
	}
	otherName := cryptoasn1.Tag(0).ContextSpecific().Constructed()
	for !names.Empty() {
		var one, value, text cryptobyte.String
		var tag cryptoasn1.Tag
		if !names.ReadAnyASN1(&one, &tag) {
			return nil, errors.New("alternative names: truncated")
		}
		if tag != otherName {
			continue
		}
		var oid asn1.ObjectIdentifier
		if !one.ReadASN1ObjectIdentifier(&oid) || !oid.Equal(append(slices.Clone(fulcioArc), extensionOtherName)) ||
			!one.ReadASN1(&value, otherName) || !value.ReadASN1(&text, cryptoasn1.UTF8String) {
			return nil, errors.New("alternative names: an unknown kind of name")
		}
		list = append(list, string(text))
	}
	return list, nil
}
