package trust

import (
	"maps"
	"slices"
	"time"

	"mm-abi.org/mm/registry/sign"
)

// Vouching returns the public keys each of which, alone, may sign the name by
// a trust file; with files, by those keys instead. Revoked and
// expired keys are excluded.
func Vouching(file, name string, files []string, now time.Time) ([]*sign.PublicKey, error) {
	trust, err := Load(file)
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
