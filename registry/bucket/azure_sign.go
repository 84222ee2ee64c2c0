package bucket

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// authorize adds the version, the date and the credentials to a request.
func (b *Azure) authorize(ctx context.Context, req *http.Request) error {
	req.Header.Set("X-Ms-Version", azureVersion)
	req.Header.Set("X-Ms-Date", time.Now().UTC().Format(http.TimeFormat))
	switch {
	case b.opt.SAS != "":
		query := strings.TrimPrefix(b.opt.SAS, "?")
		if req.URL.RawQuery != "" {
			query = req.URL.RawQuery + "&" + query
		}
		req.URL.RawQuery = query
	case b.opt.Key != nil:
		mac := hmac.New(sha256.New, b.opt.Key)
		mac.Write([]byte(b.statement(req)))
		req.Header.Set("Authorization", "SharedKey "+b.account+":"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	case b.opt.Token != nil:
		token, err := b.opt.Token(ctx)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return nil
}

// statement returns the text that a shared key signs.
func (b *Azure) statement(req *http.Request) string {
	length := ""
	if req.ContentLength > 0 {
		length = strconv.FormatInt(req.ContentLength, 10)
	}
	lines := []string{req.Method, "", "", length}
	for _, name := range []string{"Content-Md5", "Content-Type", "Date", "If-Modified-Since", "If-Match", "If-None-Match", "If-Unmodified-Since", "Range"} {
		lines = append(lines, req.Header.Get(name))
	}
	for _, name := range slices.Sorted(maps.Keys(req.Header)) {
		if lower := strings.ToLower(name); strings.HasPrefix(lower, "x-ms-") {
			lines = append(lines, lower+":"+strings.TrimSpace(req.Header.Get(name)))
		}
	}
	lines = append(lines, "/"+b.account+req.URL.EscapedPath())
	query, _ := url.ParseQuery(req.URL.RawQuery)
	for _, name := range slices.Sorted(maps.Keys(query)) {
		values := slices.Clone(query[name])
		slices.Sort(values)
		lines = append(lines, strings.ToLower(name)+":"+strings.Join(values, ","))
	}
	return strings.Join(lines, "\n")
}
