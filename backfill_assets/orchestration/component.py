"""Component of Dagster: a domain in a project of Dagster's components, declared in `defs.yaml`."""

# No postponed annotations here: Dagster resolves the fields of a component from the classes themselves.

from dagster import (
    Component,
    ComponentLoadContext,
    Definitions,
    Model,
    Resolvable,
    Scaffolder,
    ScaffoldRequest,
    scaffold_component,
    scaffold_with,
)
from pydantic import BaseModel, Field

from backfill_assets.orchestration.build import build_definitions


class _Begun(BaseModel):
    domain: str = Field(description="The module that declares DOMAIN, such as my_shop.")


class _Scaffolder(Scaffolder[_Begun]):
    """Writes the files of `dg scaffold defs`: the domain that it is given."""

    @classmethod
    def get_scaffold_params(cls) -> type[_Begun]:
        return _Begun

    def scaffold(self, request: ScaffoldRequest[_Begun]) -> None:
        scaffold_component(request, request.params.model_dump())


@scaffold_with(_Scaffolder)
class BackfillDomain(Component, Model, Resolvable):
    """The assets, checks, jobs and sensors of a domain of `backfill_assets`."""

    domain: str = Field(description="The module that declares DOMAIN, such as my_shop.")
    # Dagster makes a number of a text that looks like one.
    settings: dict[str, str | int | float] = Field(
        default_factory=dict,
        description="Settings by their names, such as BACKFILL_HOME; the environment has the others.",
    )

    def build_defs(self, context: ComponentLoadContext) -> Definitions:  # noqa: ARG002 - Dagster gives it
        """The definitions of the domain."""
        return build_definitions(self.domain, settings={name: str(value) for name, value in self.settings.items()})
