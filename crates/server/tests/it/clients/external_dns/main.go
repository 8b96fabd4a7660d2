// Command external-dns-rfc2136 is external-dns with one provider, rfc2136. It uses external-dns's flags, its registry
// of TXT records, its plan and its provider, and runs once. The desired state is a number of names from
// CATAMARAN_NAMES, not the state of a cluster.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	log "github.com/sirupsen/logrus"

	"sigs.k8s.io/external-dns/endpoint"
	"sigs.k8s.io/external-dns/pkg/apis/externaldns"
	"sigs.k8s.io/external-dns/plan"
	"sigs.k8s.io/external-dns/provider/rfc2136"
	"sigs.k8s.io/external-dns/registry/txt"
)

func main() {
	config := externaldns.NewConfig()
	if err := config.ParseFlags(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
	log.SetLevel(log.DebugLevel)
	count, err := strconv.Atoi(os.Getenv("CATAMARAN_NAMES"))
	if err != nil {
		log.Fatal(err)
	}
	desired := []*endpoint.Endpoint{}
	for number := 0; number < count; number++ {
		name := fmt.Sprintf("service-%d.%s", number, config.RFC2136Zone[0])
		desired = append(desired, endpoint.NewEndpointWithTTL(name, "A", 60, "192.0.2.1", "192.0.2.2"))
	}
	ctx := context.Background()
	filter := endpoint.NewDomainFilter(config.DomainFilter)
	provider, err := rfc2136.New(ctx, config, filter)
	if err != nil {
		log.Fatal(err)
	}
	registry, err := txt.New(config, provider)
	if err != nil {
		log.Fatal(err)
	}
	current, err := registry.Records(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if desired, err = registry.AdjustEndpoints(desired); err != nil {
		log.Fatal(err)
	}
	wanted := plan.Plan{
		Policies:       []plan.Policy{plan.Policies[config.Policy]},
		Current:        current,
		Desired:        desired,
		DomainFilter:   endpoint.MatchAllDomainFilters{filter, registry.GetDomainFilter()},
		ManagedRecords: config.ManagedDNSRecordTypes,
		ExcludeRecords: config.ExcludeDNSRecordTypes,
		OwnerID:        registry.OwnerID(),
	}
	if err := registry.ApplyChanges(ctx, wanted.Calculate().Changes); err != nil {
		log.Fatal(err)
	}
}
