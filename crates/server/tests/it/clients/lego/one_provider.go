// Replaces lego's list of providers (`cargo xtask test --full`): the other providers need modules that the Go module
// proxy does not serve.

package dns

import (
	"fmt"

	"github.com/go-acme/lego/v5/challenge"
	"github.com/go-acme/lego/v5/providers/dns/dnsupdate"
)

// NewDNSChallengeProviderByName returns the provider for RFC 2136.
func NewDNSChallengeProviderByName(name string) (challenge.Provider, error) {
	if name != "dnsupdate" {
		return nil, fmt.Errorf("there is no provider %q, only dnsupdate", name)
	}
	return dnsupdate.NewDNSProvider()
}
