package trust

import (
	"maps"
	"mm-abi.org/mm/workspace/home"
	"path/filepath"
	"slices"
	"time"

	"mm-abi.org/mm/registry/sign"
)

// Vouching gives the public keys each of which, alone, the home's trust file lets
// sign what is called name; with files, those keys and no others. Keys that are
// revoked or have run out are none of them.
func Vouching(dir, name string, files []string, now time.Time) ([]*sign.PublicKey, error) {
	trust, err := Load(filepath.Join(dir, home.TrustName))
	if len(files) > 0 {
		trust, err = trustKeys(files)
	}
	if err != nil {
		return nil, err
	}
	policy, err := trust.Policy()
	if err != nil {
		return nil, err
	}
	var out []*sign.PublicKey
	for _, k := range slices.Sorted(maps.Keys(policy.Keys)) {
		pub, err := sign.LoadPublic(policy.Keys[k].PEM)
		if err != nil {
			return nil, err
		}
		if d, err := policy.Check(name, now, pub.KeyID()); err == nil && len(d.Keys) > 0 {
			out = append(out, pub)
		}
	}
	return out, nil
}
