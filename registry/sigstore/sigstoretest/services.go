package sigstoretest

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/digitorus/timestamp"
)

// Services answers over HTTP as Fulcio, Rekor of both versions and an authority for time
// stamps do. Each judges its requests as the real one does.
type Services struct {
	URL   string
	world *World
	at    time.Time
	oidc  *ecdsa.PrivateKey

	mu    sync.Mutex
	wrong Signing                                            // parts that are wrong
	first func(http.ResponseWriter, *http.Request) (ok bool) // answers before the services; nil: never
	asked []string                                           // paths
	last  map[string][]byte                                  // bodies by path
}

// Serve starts services that state one time, and returns what stops them.
func (w *World) Serve(at time.Time) (*Services, func()) {
	s := &Services{world: w, at: at, oidc: w.key(), last: map[string][]byte{}}
	mux := http.NewServeMux()
	for path, answer := range map[string]func([]byte) ([]byte, error){
		"POST /fulcio/api/v2/signingCert": s.certify, "POST /rekor/api/v1/log/entries": s.entry1,
		"POST /tiles/api/v2/log/entries": s.entry2, "POST /stamps": s.stamp,
	} {
		mux.HandleFunc(path, func(rw http.ResponseWriter, r *http.Request) { s.answer(rw, r, answer) })
	}
	mux.HandleFunc("GET /token", s.token)
	server := httptest.NewServer(mux)
	s.URL = server.URL
	return s, server.Close
}

// Break makes parts of the answers wrong, and has first answer instead where it returns true.
func (s *Services) Break(wrong Signing, first func(http.ResponseWriter, *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong, s.first, s.asked = wrong, first, nil
}

// Asked returns the paths that were asked since the last Break.
func (s *Services) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// Last returns the last body that a path received.
func (s *Services) Last(path string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last[path]
}

// begin records a request and reports whether it is answered already.
func (s *Services) begin(rw http.ResponseWriter, r *http.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r.URL.Path)
	return s.first != nil && s.first(rw, r)
}

// answer answers one request.
func (s *Services) answer(rw http.ResponseWriter, r *http.Request, by func([]byte) ([]byte, error)) {
	if s.begin(rw, r) {
		return
	}
	kind := "application/json"
	if r.URL.Path == "/stamps" {
		kind = "application/timestamp-query"
	}
	if got := r.Header.Get("Content-Type"); got != kind {
		http.Error(rw, got, http.StatusUnsupportedMediaType)
		return
	}
	body, err := io.ReadAll(r.Body)
	s.mu.Lock()
	s.last[r.URL.Path] = body
	s.mu.Unlock()
	var data []byte
	if err == nil {
		data, err = by(body)
	}
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	rw.WriteHeader(http.StatusCreated)
	_, _ = rw.Write(data) // the client has left
}

// token answers as GitHub Actions does.
func (s *Services) token(rw http.ResponseWriter, r *http.Request) {
	if s.begin(rw, r) {
		return
	}
	if r.Header.Get("Authorization") != "Bearer request-secret" || r.URL.Query().Get("job") != "1" {
		http.Error(rw, "unknown job", http.StatusUnauthorized)
		return
	}
	_ = json.NewEncoder(rw).Encode(m{"value": s.Token(r.URL.Query().Get("audience"), time.Hour), "count": 1}) // the client has left
}

// Token returns a token of the world's issuer.
func (s *Services) Token(audience string, life time.Duration) string {
	part := func(v any) string {
		data, err := json.Marshal(v)
		s.world.check(err)
		return base64.RawURLEncoding.EncodeToString(data)
	}
	text := part(m{"alg": "ES256", "typ": "JWT"}) + "." + part(m{
		"iss": "https://issuer.test", "sub": "repo:org/repo", "aud": audience, "exp": s.at.Add(life).Unix(), "iat": s.at.Unix(),
	})
	return text + "." + base64.RawURLEncoding.EncodeToString(s.world.raw(s.oidc, crypto.SHA256, []byte(text)))
}

// Config returns a signing configuration with a log of each version named.
func (s *Services) Config(stamps bool, versions ...int) []byte {
	valid := m{"start": s.world.Start.Format(time.RFC3339)}
	one := func(path string, version int) m {
		return m{"url": s.URL + path, "majorApiVersion": version, "validFor": valid, "operator": "test"}
	}
	config := m{
		"mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json", "caUrls": []any{one("/fulcio", 1)},
		"rekorTlogConfig": m{"selector": "ANY"}, "tsaConfig": m{"selector": "ANY"},
	}
	var logs []any
	for _, v := range versions {
		logs = append(logs, one(map[int]string{1: "/rekor", 2: "/tiles"}[v], v))
	}
	config["rekorTlogUrls"] = logs
	if stamps {
		config["tsaUrls"] = []any{one("/stamps", 1)}
	}
	data, err := json.Marshal(config)
	s.world.check(err)
	return data
}

// broken returns the wrong parts.
func (s *Services) broken() Signing {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.wrong
	w.At = s.at
	return w
}

// holder is a key of which only the public half is known.
type holder struct {
	crypto.Signer
	public crypto.PublicKey
}

// Public returns the public half.
func (h holder) Public() crypto.PublicKey { return h.public }

// certify is Fulcio's interface v2.
func (s *Services) certify(body []byte) ([]byte, error) {
	var in struct {
		Credentials struct{ OidcIdentityToken string }
		Request     []byte `json:"certificateSigningRequest"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	issuer, subject, err := s.judge(in.Credentials.OidcIdentityToken)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(in.Request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("not a request for a certificate")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err == nil {
		err = csr.CheckSignature()
	}
	if err != nil {
		return nil, err
	}
	signing := s.broken()
	signing.Issuer, signing.Subject = issuer, "https://forge.test/"+subject
	signing.Key = holder{public: csr.PublicKey}
	if signing.ForeignSignature {
		signing.Key = s.world.key()
	}
	leaf := s.world.certify(signing)
	var chain []string
	for _, c := range []*x509.Certificate{leaf, s.world.issuing, s.world.root} {
		chain = append(chain, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})))
	}
	return json.Marshal(m{"signedCertificateEmbeddedSct": m{"chain": m{"certificates": chain}}})
}

// judge verifies a token.
func (s *Services) judge(token string) (issuer, subject string, err error) {
	end := strings.LastIndexByte(token, '.')
	if end < 0 {
		return "", "", errors.New("not a token")
	}
	_, payload, _ := strings.Cut(token[:end], ".")
	sig, err := base64.RawURLEncoding.DecodeString(token[end+1:])
	if err != nil || !ecdsa.VerifyASN1(&s.oidc.PublicKey, sum256([]byte(token[:end])), sig) {
		return "", "", errors.New("the token is not by the issuer")
	}
	data, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		return "", "", err
	}
	var claims struct {
		Iss, Sub, Aud string
		Exp           int64
	}
	if err := json.Unmarshal(data, &claims); err != nil {
		return "", "", err
	}
	if claims.Aud != "sigstore" || time.Unix(claims.Exp, 0).Before(s.at) {
		return "", "", errors.New("the token is for others, or expired")
	}
	return claims.Iss, claims.Sub, nil
}

// entry1 is Rekor v1, for statements.
func (s *Services) entry1(body []byte) ([]byte, error) {
	var in struct {
		Version string `json:"apiVersion"`
		Kind    string
		Spec    struct {
			Content struct {
				Envelope  string
				Verifiers [][]byte
			} `json:"proposedContent"`
		}
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	var envelope struct {
		Payload     []byte
		PayloadType string
		Signatures  []struct{ Sig []byte }
	}
	if err := json.Unmarshal([]byte(in.Spec.Content.Envelope), &envelope); err != nil {
		return nil, err
	}
	if in.Kind != "dsse" || in.Version != "0.0.1" || len(envelope.Signatures) != 1 || len(in.Spec.Content.Verifiers) != 1 {
		return nil, errors.New("not an entry about a statement with one signature")
	}
	block, _ := pem.Decode(in.Spec.Content.Verifiers[0])
	if block == nil {
		return nil, errors.New("the verifier is not PEM")
	}
	signing := s.broken()
	signing.Payload, signing.PayloadType, signing.Kind = envelope.Payload, envelope.PayloadType, "dsse 0.0.1"
	e, err := s.logged(signing, block.Bytes, envelope.Signatures[0].Sig, sum256(signing.message()))
	if err != nil {
		return nil, err
	}
	proof := e["inclusionProof"].(m)
	hashes := []string{}
	for _, h := range proof["hashes"].([]any) {
		hashes = append(hashes, fmt.Sprintf("%x", h))
	}
	index, promise := json.Number(e["logIndex"].(string)), []byte{}
	if p, ok := e["inclusionPromise"].(m); ok {
		promise = p["signedEntryTimestamp"].([]byte)
	}
	return json.Marshal(m{"24296fb24b8ad77a": m{
		"body": e["canonicalizedBody"], "integratedTime": json.Number(e["integratedTime"].(string)), "logID": fmt.Sprintf("%x", e["logId"].(m)["keyId"]), "logIndex": index,
		"verification": m{"signedEntryTimestamp": promise, "inclusionProof": m{
			"checkpoint": proof["checkpoint"].(m)["envelope"], "hashes": hashes, "logIndex": json.Number(proof["logIndex"].(string)),
			"rootHash": fmt.Sprintf("%x", proof["rootHash"]), "treeSize": json.Number(proof["treeSize"].(string)),
		}},
	}})
}

// entry2 is Rekor v2.
func (s *Services) entry2(body []byte) ([]byte, error) {
	var in struct {
		Request struct {
			Digest    []byte
			Signature struct {
				Content  []byte
				Verifier struct {
					KeyDetails      string
					X509Certificate struct{ RawBytes []byte }
				}
			}
		} `json:"hashedRekordRequestV002"`
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in); err != nil {
		return nil, err
	}
	sig := in.Request.Signature
	if sig.Verifier.KeyDetails != "PKIX_ECDSA_P256_SHA_256" {
		return nil, errors.New("unknown kind of key")
	}
	signing := s.broken()
	signing.Kind, signing.NoPromise = "hashedrekord 0.0.2", true
	e, err := s.logged(signing, sig.Verifier.X509Certificate.RawBytes, sig.Content, in.Request.Digest)
	if err != nil {
		return nil, err
	}
	return json.Marshal(e)
}

// logged verifies a signature and returns its entry.
func (s *Services) logged(signing Signing, der, sig, digest []byte) (m, error) {
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	key, ok := leaf.PublicKey.(*ecdsa.PublicKey)
	if !ok || !ecdsa.VerifyASN1(key, digest, sig) {
		return nil, errors.New("the signature is not by this key")
	}
	signing.Key = holder{public: key}
	if signing.OtherSignature { // of the same content, by another key
		signing.Key = s.world.key()
		signing.Message = []byte("other")
	}
	signer := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return s.world.entry(signing, parts{leaf: leaf, signer: signer, der: der, signature: sig, digest: digest, hash: crypto.SHA256}), nil
}

// stamp is an authority for time stamps.
func (s *Services) stamp(body []byte) ([]byte, error) {
	req, err := timestamp.ParseRequest(body)
	if err != nil {
		return nil, err
	}
	if req.HashAlgorithm != crypto.SHA256 {
		return nil, errors.New("unknown hash")
	}
	wrong := s.broken()
	wrong.StampHash = crypto.SHA256
	return s.world.stamped(wrong, req.HashedMessage), nil
}
