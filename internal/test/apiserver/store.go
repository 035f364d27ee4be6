package main

import (
	"context"
	"fmt"
	"time"

	coordination "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/storage/names"
)

func newStore(scheme *runtime.Scheme, options generic.RESTOptionsGetter) (*registry.Store, error) {
	s := strategy{scheme, names.SimpleNameGenerator}
	store := &registry.Store{
		NewFunc:                   func() runtime.Object { return &coordination.Lease{} },
		NewListFunc:               func() runtime.Object { return &coordination.LeaseList{} },
		DefaultQualifiedResource:  coordination.Resource("leases"),
		SingularQualifiedResource: coordination.Resource("lease"),
		CreateStrategy:            s, UpdateStrategy: s, DeleteStrategy: s,
		TableConvertor: columns{},
	}
	return store, store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: options})
}

// columns are what kubectl prints, as kube-apiserver has them
// (pkg/printers/internalversion/printers.go, printLease).
type columns struct{}

func (columns) ConvertToTable(_ context.Context, o, _ runtime.Object) (*metav1.Table, error) {
	table := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name"}, {Name: "Holder", Type: "string"}, {Name: "Age", Type: "string"},
	}}
	add := func(l *coordination.Lease) {
		holder := ""
		if l.Spec.HolderIdentity != nil {
			holder = *l.Spec.HolderIdentity
		}
		age := duration.HumanDuration(time.Since(l.CreationTimestamp.Time))
		table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{l.Name, holder, age}, Object: runtime.RawExtension{Object: l}})
	}
	switch o := o.(type) {
	case *coordination.Lease:
		table.ResourceVersion = o.ResourceVersion
		add(o)
	case *coordination.LeaseList:
		table.ListMeta = o.ListMeta
		for i := range o.Items {
			add(&o.Items[i])
		}
	default:
		return nil, fmt.Errorf("%T is no lease", o)
	}
	return table, nil
}

// strategy is that of kube-apiserver (pkg/registry/coordination/lease), with the rules of
// its validation that leaderrun can break.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
}

func (strategy) NamespaceScoped() bool                                            { return true }
func (strategy) PrepareForCreate(context.Context, runtime.Object)                 {}
func (strategy) PrepareForUpdate(context.Context, runtime.Object, runtime.Object) {}
func (strategy) AllowCreateOnUpdate() bool                                        { return true }
func (strategy) AllowUnconditionalUpdate() bool                                   { return false }
func (strategy) Canonicalize(runtime.Object)                                      {}

func (strategy) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }
func (strategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

func (strategy) Validate(_ context.Context, o runtime.Object) field.ErrorList { return validate(o) }
func (strategy) ValidateUpdate(_ context.Context, o, _ runtime.Object) field.ErrorList {
	return validate(o)
}

func validate(o runtime.Object) (all field.ErrorList) {
	spec, at := o.(*coordination.Lease).Spec, field.NewPath("spec")
	if s := spec.LeaseDurationSeconds; s != nil && *s <= 0 {
		all = append(all, field.Invalid(at.Child("leaseDurationSeconds"), *s, "must be greater than 0"))
	}
	if n := spec.LeaseTransitions; n != nil && *n < 0 {
		all = append(all, field.Invalid(at.Child("leaseTransitions"), *n, "must be greater than or equal to 0"))
	}
	return all
}
