package sigstore

import (
	"bytes"
	"crypto"
	"errors"
	"fmt"
	"strings"
	"testing"

	"mm-abi.org/mm/registry/sigstore/sigstoretest"
)

// material returns the verification material of a bundle.
func material(b map[string]any) map[string]any {
	return b["verificationMaterial"].(map[string]any)
}

func TestParseRefuses(t *testing.T) {
	w := sigstoretest.New(t, day)
	type object = map[string]any
	for name, c := range map[string]struct {
		version string
		edit    func(b object)
		want    string
	}{
		"media type":           {"", func(b object) { b["mediaType"] = bundleType + ".v0.4+json" }, "media type"},
		"no media type":        {"", func(b object) { delete(b, "mediaType") }, "media type"},
		"no content":           {"", func(b object) { delete(b, "messageSignature") }, "neither a DSSE"},
		"no signer":            {"", func(b object) { delete(material(b), "certificate") }, "neither a public key"},
		"chain in v0.3":        {"0.2", func(b object) { b["mediaType"] = bundleType + ".v0.3+json" }, "certificate chain"},
		"empty chain":          {"0.2", func(b object) { material(b)["x509CertificateChain"] = object{"certificates": []any{}} }, "0 certificates"},
		"no certificate":       {"", func(b object) { material(b)["certificate"] = object{"rawBytes": "AAAA"} }, "certificate"},
		"no proof in v0.2":     {"0.2", func(b object) { delete(entries(b)[0].(object), "inclusionProof") }, "no inclusion proof"},
		"no proof in v0.3":     {"0.3", func(b object) { delete(entries(b)[0].(object), "inclusionProof") }, "no inclusion proof"},
		"no promise in v0.1":   {"0.1", func(b object) { delete(entries(b)[0].(object), "inclusionPromise") }, "no signed entry timestamp"},
		"negative index":       {"", func(b object) { entries(b)[0].(object)["logIndex"] = "-1" }, "log entry 0"},
		"no body":              {"", func(b object) { delete(entries(b)[0].(object), "canonicalizedBody") }, "log entry 0"},
		"proof of no tree":     {"", func(b object) { entries(b)[0].(object)["inclusionProof"].(object)["treeSize"] = "0" }, "inclusion proof"},
		"index is text":        {"", func(b object) { entries(b)[0].(object)["logIndex"] = "one" }, "logIndex"},
		"short digest":         {"", func(b object) { b["messageSignature"].(object)["messageDigest"].(object)["digest"] = "AAAA" }, "message digest"},
		"unknown digest":       {"", func(b object) { b["messageSignature"].(object)["messageDigest"].(object)["algorithm"] = "SHA3_256" }, "message digest"},
		"empty signature":      {"", func(b object) { delete(b["messageSignature"].(object), "signature") }, "empty signature"},
		"member twice by case": {"", func(b object) { b["mediatype"] = "x" }, "twice"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(w.Bundle(message(func(s *sigstoretest.Signing) { s.Version, s.Edit = c.version, c.edit })))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	two := statement(func(s *sigstoretest.Signing) {
		s.Edit = func(b object) {
			env := b["dsseEnvelope"].(object)
			env["signatures"] = append(env["signatures"].([]any), env["signatures"].([]any)[0])
		}
	})
	if _, err := Parse(w.Bundle(two)); err == nil {
		t.Error("two signatures in an envelope")
	}
	more := message(func(s *sigstoretest.Signing) { s.Edit = func(b object) { b["later"] = 1 } })
	if _, err := Parse(w.Bundle(more)); err != nil {
		t.Errorf("an unknown member: %v", err)
	}
}

func TestParseRootRefuses(t *testing.T) {
	w := sigstoretest.New(t, day)
	type object = map[string]any
	first := func(root object, list string) object { return root[list].([]any)[0].(object) }
	for name, c := range map[string]struct {
		edit func(root object)
		want string
	}{
		"media type":     {func(r object) { r["mediaType"] = "x" }, "media type"},
		"duplicate log":  {func(r object) { r["tlogs"] = append(r["tlogs"].([]any), r["tlogs"].([]any)[0]) }, "tlogs[2]: duplicate"},
		"hash algorithm": {func(r object) { first(r, "tlogs")["hashAlgorithm"] = "SHA2_512" }, "hash algorithm"},
		"no log id":      {func(r object) { delete(first(r, "ctlogs"), "logId") }, "ctlogs[0]: no log id"},
		"no start":       {func(r object) { delete(first(r, "tlogs")["publicKey"].(object), "validFor") }, "no start"},
		"another kind":   {func(r object) { first(r, "tlogs")["publicKey"].(object)["keyDetails"] = "PKIX_ED25519" }, "another kind"},
		"unknown kind":   {func(r object) { first(r, "tlogs")["publicKey"].(object)["keyDetails"] = "ML_DSA_65" }, "not supported"},
		"no key":         {func(r object) { delete(first(r, "tlogs")["publicKey"].(object), "rawBytes") }, "public key"},
		"empty chain":    {func(r object) { first(r, "certificateAuthorities")["certChain"] = object{} }, "certificateAuthorities[0]: got 0"},
		"not a certificate": {func(r object) {
			first(r, "timestampAuthorities")["certChain"] = object{"certificates": []any{object{"rawBytes": "AAAA"}}}
		}, "timestampAuthorities[0]: certificate 0"},
		"leaf without root": {func(r object) {
			chain := first(r, "timestampAuthorities")["certChain"].(object)
			chain["certificates"] = chain["certificates"].([]any)[:1]
		}, "no root"},
		"date is not a date": {func(r object) { first(r, "tlogs")["publicKey"].(object)["validFor"] = object{"start": "May"} }, "trusted root"},
		"member twice":       {func(r object) { r["TLOGS"] = 1 }, "twice"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseRoot(w.Root(c.edit))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	if r, err := ParseRoot(w.Root()); err != nil || len(r.Digest) != 64 {
		t.Errorf("got %v, %v", r, err)
	}
}

// Each limit has a case on either side.
func TestLimits(t *testing.T) {
	w := sigstoretest.New(t, day)
	type object = map[string]any
	repeat := func(v any, n int) (list []any) {
		for range n {
			list = append(list, v)
		}
		return list
	}
	for more, want := range []bool{true, false} {
		parse := func(what string, edit func(b object)) {
			t.Helper()
			if _, err := Parse(w.Bundle(message(func(s *sigstoretest.Signing) { s.Version, s.Edit = "0.2", edit }))); (err == nil) != want {
				t.Errorf("%s+%d: %v", what, more, err)
			}
		}
		parse("maxEntries", func(b object) { material(b)["tlogEntries"] = repeat(entries(b)[0], maxEntries+more) })
		parse("maxStamps", func(b object) {
			material(b)["timestampVerificationData"] = object{"rfc3161Timestamps": repeat(object{"signedTimestamp": "AAAA"}, maxStamps+more)}
		})
		parse("maxHashes", func(b object) {
			entries(b)[0].(object)["inclusionProof"].(object)["hashes"] = repeat("AAAA", maxHashes+more)
		})
		parse("maxChain", func(b object) {
			chain := material(b)["x509CertificateChain"].(object)
			chain["certificates"] = repeat(chain["certificates"].([]any)[0], maxChain+more)
		})
		parse("maxDepth", func(b object) { b["deep"] = nested(maxDepth - 1 + more) })
		data := w.Bundle(message(nil))
		if _, err := Parse(append(data, bytes.Repeat([]byte(" "), MaxBundle-len(data)+more)...)); (err == nil) != want {
			t.Errorf("MaxBundle+%d: %v", more, err)
		}
		data = w.Root()
		if _, err := ParseRoot(append(data, bytes.Repeat([]byte(" "), MaxRoot-len(data)+more)...)); (err == nil) != want {
			t.Errorf("MaxRoot+%d: %v", more, err)
		}
		_, err := ParseRoot(w.Root(func(r object) {
			r["certificateAuthorities"] = repeat(r["certificateAuthorities"].([]any)[0], maxInstances+more)
		}))
		if (err == nil) != want {
			t.Errorf("maxInstances+%d: %v", more, err)
		}
		_, err = ParseRoot(w.Root(func(r object) {
			logs := repeat(nil, maxInstances+more)
			for i := range logs {
				one := object{}
				for k, v := range r["tlogs"].([]any)[0].(object) {
					one[k] = v
				}
				one["logId"] = object{"keyId": fmt.Appendf(nil, "%08d", i)}
				logs[i] = one
			}
			r["tlogs"] = logs
		}))
		if (err == nil) != want {
			t.Errorf("maxInstances+%d logs: %v", more, err)
		}
	}
}

// nested returns a list in lists.
func nested(depth int) any {
	var v any = 1
	for range depth {
		v = []any{v}
	}
	return v
}

func TestMaxSCTs(t *testing.T) {
	w := sigstoretest.New(t, day)
	for more, want := range []bool{true, false} {
		_, err := verify(w, message(func(s *sigstoretest.Signing) { s.Timestamps = maxSCTs + more }))
		if (err == nil) != want {
			t.Errorf("maxSCTs+%d: %v", more, err)
		}
		if !want && !errors.Is(err, &Fault{Check: CheckTransparent}) {
			t.Errorf("maxSCTs+%d: %v", more, err)
		}
	}
}

func TestMaxStamp(t *testing.T) {
	w := sigstoretest.New(t, day)
	r, err := ParseRoot(w.Root())
	if err != nil {
		t.Fatal(err)
	}
	b := mustParse(t, w.Bundle(message(func(s *sigstoretest.Signing) { s.Stamp = true })))
	for more, want := range []string{"", "got 65537 bytes"} {
		data := append(bytes.Clone(b.stamps[0]), make([]byte, maxStamp+more-len(b.stamps[0]))...)
		_, err := r.stampers[0].stamp(data, b.signature)
		if err == nil || strings.Contains(err.Error(), "bytes, want") != (want != "") {
			t.Errorf("maxStamp+%d: %v", more, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	w := sigstoretest.New(f, day)
	root, err := ParseRoot(w.Root())
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []sigstoretest.Signing{message(nil), statement(nil), message(func(s *sigstoretest.Signing) { s.Kind = "hashedrekord 0.0.2" }), statement(func(s *sigstoretest.Signing) { s.Version = "0.1" })} {
		f.Add(w.Bundle(s))
	}
	f.Add([]byte(`{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","verificationMaterial":{"publicKey":{}},"messageSignature":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := Parse(data)
		if err != nil {
			return
		}
		v, err := b.Verify(root)
		if err == nil && (v.Subject == "" || v.Issuer == "" || len(v.Times) == 0) {
			t.Fatalf("verified %+v", v)
		}
		var fault *Fault
		if err != nil && !errors.As(err, &fault) {
			t.Fatal(err)
		}
		if b.VerifyKey(crypto.PublicKey(nil), nil) == nil {
			t.Fatal("verified without a key")
		}
	})
}

// The last certificate of a chain is the one that is trusted.
func TestRootOfChain(t *testing.T) {
	r, err := ParseRoot(sigstoretest.New(t, day).Root())
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range append(r.authorities, r.stampers...) {
		if a.root.Subject.CommonName != "root" || len(a.intermediates) != 1 {
			t.Errorf("got the root %s below %d", a.root.Subject, len(a.intermediates))
		}
	}
	if got := r.authorities[0].valid.String(); got != "from 2025-03-01T12:00:00Z" {
		t.Errorf("got %q", got)
	}
	if got := (window{day, day}).String(); got != "2026-03-01T12:00:00Z to 2026-03-01T12:00:00Z" {
		t.Errorf("got %q", got)
	}
}

func FuzzParseRoot(f *testing.F) {
	w := sigstoretest.New(f, day)
	f.Add(w.Root())
	f.Add([]byte(`{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1","tlogs":[{}]}`))
	b, err := Parse(w.Bundle(message(nil)))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, err := ParseRoot(data); err == nil {
			b.Verify(r) // must not panic
		}
	})
}

// FuzzCertificate holds that the parts of a certificate that crypto/x509 does not read
// lead to values or errors.
func FuzzCertificate(f *testing.F) {
	w := sigstoretest.New(f, day)
	b, err := Parse(w.Bundle(message(func(s *sigstoretest.Signing) { s.Subject = "!a!b" })))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b.leaf.RawTBSCertificate)
	for _, e := range b.leaf.Extensions {
		f.Add(e.Value)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if tbs, err := precertificate(data); err == nil && len(tbs) > len(data)+8 {
			t.Fatalf("%d bytes of %d", len(tbs), len(data))
		}
		_, _ = otherNames(data)
		readSCT(data)
	})
}

func TestDecode(t *testing.T) {
	for _, bad := range []string{
		``, `{`, `{"a":1,"a":2}`, `{"payload":1,"Payload":2}`, `{"s":1,"ſ":2}`, `{"k":1,"` + "\u212a" + `":2}`, `{} {}`, `{}}`, `[{"x":{"y":1,"y":1}}]`,
		strings.Repeat(`[`, maxDepth+2) + strings.Repeat(`]`, maxDepth+2), `{"a" 1}`, `nul`,
	} {
		var v any
		if err := Decode([]byte(bad), &v); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
	for _, good := range []string{`{}`, ` {"a":{"a":1},"b":[{"a":1},{"a":2}]} `, `null`, `1`} {
		var v any
		if err := Decode([]byte(good), &v); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
}
