// Command apiserver is a Kubernetes API server for tests that has only Leases, built with
// the library of kube-apiserver, on an etcd. With -rival it is a candidate for a lease with
// client-go's leader election.
//
// It differs from a real one: namespaces need not exist, and the rights of users are fixed
// (see rights).
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	coordination "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	openapicommon "k8s.io/kube-openapi/pkg/common"
)

func main() {
	etcd := flag.String("etcd", "", "where its etcd is, as http://HOST:PORT")
	addr := flag.String("addr", "", "where it listens, as HOST:PORT")
	cert := flag.String("cert", "", "its certificate, FILE")
	key := flag.String("key", "", "and the key of that, FILE")
	ca := flag.String("ca", "", "who signs the certificates of users, FILE")
	rival := flag.String("rival", "", "be no API server but a candidate for the lease of this NAME")
	kubeconfig := flag.String("kubeconfig", "", "where the rival finds its API server, FILE")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if *rival != "" {
		if err := campaign(ctx, *kubeconfig, *rival); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if err := run(ctx, *etcd, *addr, *cert, *key, *ca); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, etcd, addr, cert, key, ca string) error {
	scheme := runtime.NewScheme()
	// The types are registered as the internal ones, too: nothing is converted.
	for _, version := range []string{"v1", runtime.APIVersionInternal} {
		scheme.AddKnownTypes(schema.GroupVersion{Group: coordination.GroupName, Version: version}, &coordination.Lease{}, &coordination.LeaseList{})
	}
	metav1.AddToGroupVersion(scheme, coordination.SchemeGroupVersion)
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	if err := scheme.SetVersionPriority(coordination.SchemeGroupVersion); err != nil {
		return err
	}
	codecs := serializer.NewCodecFactory(scheme)

	c := server.NewConfig(codecs)
	c.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	c.OpenAPIV3Config = server.DefaultOpenAPIV3Config(
		func(openapicommon.ReferenceCallback) map[string]openapicommon.OpenAPIDefinition { return nil }, openapi.NewDefinitionNamer(scheme))
	c.OpenAPIV3Config.IgnorePrefixes = []string{"/apis"} // nobody asks for the definitions
	c.SkipOpenAPIInstallation = true
	c.RequestTimeout = 3 * time.Second // 60 of a real one: tests wait for it
	if err := serve(c, addr, cert, key); err != nil {
		return err
	}
	if err := know(c, ca); err != nil {
		return err
	}

	backend := storagebackend.NewDefaultConfig("/registry", codecs.LegacyCodec(coordination.SchemeGroupVersion))
	backend.Transport.ServerList = []string{etcd}
	storage := options.NewEtcdOptions(backend)
	storage.SkipHealthEndpoints = true
	if err := storage.ApplyTo(c); err != nil {
		return err
	}
	s, err := c.Complete(informers.NewSharedInformerFactory(fake.NewClientset(), 0)).New("leases", server.NewEmptyDelegate())
	if err != nil {
		return err
	}
	leases, err := newStore(scheme, c.RESTOptionsGetter)
	if err != nil {
		return err
	}
	group := server.NewDefaultAPIGroupInfo(coordination.GroupName, scheme, runtime.NewParameterCodec(scheme), codecs)
	group.VersionedResourcesStorageMap["v1"] = map[string]rest.Storage{"leases": leases}
	if err := s.InstallAPIGroup(&group); err != nil {
		return err
	}
	s.AddPostStartHookOrDie("says-that-it-serves", func(server.PostStartHookContext) error {
		fmt.Fprintln(os.Stderr, "serving leases")
		return nil
	})
	return s.PrepareRun().RunWithContext(ctx)
}

// serve listens at addr, by TLS.
func serve(c *server.Config, addr, cert, key string) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	secure := options.NewSecureServingOptions().WithLoopback()
	secure.Listener = listener
	secure.BindPort = listener.Addr().(*net.TCPAddr).Port
	secure.ServerCert.CertKey = options.CertKey{CertFile: cert, KeyFile: key}
	return secure.ApplyTo(&c.SecureServing, &c.LoopbackClientConfig)
}

// know configures the users: each has its name as its token, or a certificate.
func know(c *server.Config, ca string) error {
	users := map[string]*user.DefaultInfo{}
	for name := range rights {
		users[name] = &user.DefaultInfo{Name: name}
	}
	authority, err := dynamiccertificates.NewDynamicCAContentFromFile("ca", ca)
	if err != nil {
		return err
	}
	byCertificate, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{ClientCertificateCAContentProvider: authority}.New()
	if err != nil {
		return err
	}
	if err := c.Authentication.ApplyClientCert(authority, c.SecureServing); err != nil {
		return err
	}
	c.Authentication.Authenticator = union.New(authenticatorfactory.NewFromTokens(users, nil), byCertificate)
	c.Authorization.Authorizer = authorizer.AuthorizerFunc(authorize)
	server.AuthorizeClientBearerToken(c.LoopbackClientConfig, &c.Authentication, &c.Authorization)
	return nil
}

// rights are the users' rights on leases.
var rights = map[string][]string{
	"admin":     {"get", "create", "update", "watch", "list", "patch", "delete", "deletecollection"},
	"leaderrun": {"get", "create", "update", "watch"}, // as deploy/kubernetes has it
	"operator":  {"get", "create", "update", "watch", "list"},
	"reader":    {"get"},
	"nobody":    {},
	"client":    {"get", "create", "update", "watch"}, // known by a certificate
}

func authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	// As system:public-info-viewer and system:discovery have it; kubectl asks for it.
	if path := a.GetPath(); path == "/version" || path == "/api" || strings.HasPrefix(path, "/apis") && !a.IsResourceRequest() {
		return authorizer.DecisionAllow, "", nil
	}
	if a.GetUser() == nil || a.GetResource() != "leases" {
		return authorizer.DecisionNoOpinion, "", nil
	}
	for _, verb := range rights[a.GetUser().GetName()] {
		if verb == a.GetVerb() {
			return authorizer.DecisionAllow, "", nil
		}
	}
	return authorizer.DecisionNoOpinion, "", nil
}
