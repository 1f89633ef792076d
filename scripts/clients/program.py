"""Uses the generated client as a caller would. It is only type-checked, by scripts/api-clients."""

from emergent_client import AuthenticatedClient
from emergent_client.api.graph import search_objects
from emergent_client.api.objects import create_object
from emergent_client.models import CreateObject, CreateObjectProperties, EnvelopeObject, EnvelopeSearchResult
from emergent_client.models import SearchObjects

client = AuthenticatedClient(base_url="http://127.0.0.1:4400", token="token")


def create() -> str:
    properties = CreateObjectProperties()
    properties["title"] = "Write"
    body = CreateObject(type_="Task", key="a", labels=["open"], properties=properties)
    created = create_object.sync(client=client, body=body)
    assert isinstance(created, EnvelopeObject)
    return str(created.data.id)


def search(query: str) -> list[float]:
    found = search_objects.sync(client=client, body=SearchObjects(query=query, limit=5))
    assert isinstance(found, EnvelopeSearchResult)
    return [hit.score for hit in found.data.hits]


print(create(), search("graph"))
